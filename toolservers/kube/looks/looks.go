// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package looks are the tools that look at objects and change nothing.
package looks

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/kube/cluster"
)

//go:embed schemas/*.json
var schemas embed.FS

// A look answers one call, as who calls sees the cluster.
type look func(ctx context.Context, as *cluster.As, w wanted) (tool.Answer, error)

// Tools gives the tools that look at objects of c.
func Tools(c *cluster.Cluster) ([]tool.Tool, error) {
	output, err := schemas.ReadFile("schemas/answer.json")
	if err != nil {
		return nil, fmt.Errorf("reading the schema of answers: %w", err)
	}
	var tools []tool.Tool
	for _, t := range []struct {
		name, title, description string
		look                     look
	}{
		{"kube_get", "Get", "Reads one object. The values of Secrets are not shown.", get},
		{"kube_list", "List", "Lists objects of one Kind in a namespace, with what tells them apart. Read one with kube_get.", list},
		{"kube_events", "Events", "Lists the newest events of a namespace, or those about one object: what happened, and why.", events},
		{"kube_logs", "Logs", "Reads the end of a container's log.", logs},
	} {
		input, err := schemas.ReadFile("schemas/" + t.name + ".json")
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", t.name, err)
		}
		tools = append(tools, tool.Tool{
			Name: t.name, Title: t.title, Description: t.description, InputSchema: input, OutputSchema: output,
			Call: func(ctx context.Context, op tool.Operation) (tool.Answer, error) {
				var w wanted
				if err := json.Unmarshal(op.Arguments, &w); err != nil {
					return tool.Answer{}, tool.Errorf(tool.InvalidArguments, "the arguments can't be read")
				}
				as, err := c.As(op.Principal)
				if err != nil {
					return tool.Answer{}, err
				}
				return t.look(ctx, as, w)
			},
		})
	}
	return tools, nil
}

// wanted are the arguments of all of them; each has those that its schema names.
type wanted struct {
	APIVersion    string  `json:"apiVersion"`
	Kind          string  `json:"kind"`
	Namespace     string  `json:"namespace"`
	Name          string  `json:"name"`
	LabelSelector string  `json:"labelSelector"`
	FieldSelector string  `json:"fieldSelector"`
	Limit         float64 `json:"limit"`
	Continue      string  `json:"continue"`
	Pod           string  `json:"pod"`
	Container     string  `json:"container"`
	TailLines     float64 `json:"tailLines"`
	SinceSeconds  float64 `json:"sinceSeconds"`
	Previous      bool    `json:"previous"`
}

func get(ctx context.Context, as *cluster.As, w wanted) (tool.Answer, error) {
	o, err := as.Get(ctx, cluster.Target{APIVersion: w.APIVersion, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name})
	if err != nil {
		return tool.Answer{}, err
	}
	shown, err := cluster.Bounded(cluster.Shown(o))
	return tool.Answer{Data: map[string]any{"object": shown}, Sources: []tool.Source{sourceOf(o)}}, err
}

func list(ctx context.Context, as *cluster.As, w wanted) (tool.Answer, error) {
	const byDefault, mostSources = 20, 50
	limit := int64(w.Limit)
	if limit == 0 {
		limit = byDefault
	}
	found, err := as.List(ctx, w.APIVersion, w.Kind, w.Namespace, metav1.ListOptions{
		LabelSelector: w.LabelSelector, FieldSelector: w.FieldSelector, Limit: limit, Continue: w.Continue,
	})
	if err != nil {
		return tool.Answer{}, err
	}
	objects := []any{}
	answer := tool.Answer{}
	for i := range found.Items {
		o := &found.Items[i]
		objects = append(objects, brief(o))
		if len(answer.Sources) < mostSources {
			answer.Sources = append(answer.Sources, sourceOf(o))
		}
	}
	shown, err := cluster.Bounded(objects)
	answer.Data = map[string]any{"objects": shown, "continue": found.GetContinue()}
	return answer, err
}

// brief is what tells objects of a list apart: the beginning of their spec is left to kube_get.
func brief(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{"name": o.GetName(), "createdAt": o.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")}
	if labels := o.GetLabels(); len(labels) > 0 {
		out["labels"] = labels
	}
	status, ok := o.Object["status"].(map[string]any)
	if !ok {
		return out
	}
	for _, field := range []string{"phase", "replicas", "readyReplicas", "availableReplicas", "conditions"} {
		if v, ok := status[field]; ok {
			out[field] = v
		}
	}
	return out
}

func events(ctx context.Context, as *cluster.As, w wanted) (tool.Answer, error) {
	const most = 200
	var fields []string
	if w.Kind != "" {
		fields = append(fields, "involvedObject.kind="+w.Kind)
	}
	if w.Name != "" {
		fields = append(fields, "involvedObject.name="+w.Name)
	}
	found, err := as.List(ctx, "v1", "Event", w.Namespace, metav1.ListOptions{FieldSelector: strings.Join(fields, ","), Limit: most})
	if err != nil {
		return tool.Answer{}, err
	}
	list := []any{}
	for _, e := range found.Items {
		about, _, _ := unstructured.NestedMap(e.Object, "involvedObject")
		list = append(list, map[string]any{
			"type": e.Object["type"], "reason": e.Object["reason"], "message": e.Object["message"], "count": e.Object["count"],
			"lastSeen": e.Object["lastTimestamp"], "about": fmt.Sprintf("%v/%v", about["kind"], about["name"]),
		})
	}
	shown, err := cluster.Bounded(list)
	return tool.Answer{Data: map[string]any{"events": shown}}, err
}

func logs(ctx context.Context, as *cluster.As, w wanted) (tool.Answer, error) {
	const byDefault = 100
	options := &corev1.PodLogOptions{Container: w.Container, Previous: w.Previous, TailLines: new(int64(w.TailLines))}
	if w.TailLines == 0 {
		options.TailLines = new(int64(byDefault))
	}
	if w.SinceSeconds > 0 {
		options.SinceSeconds = new(int64(w.SinceSeconds))
	}
	text, err := as.Logs(ctx, w.Namespace, w.Pod, options)
	return tool.Answer{Data: map[string]any{"log": strings.ToValidUTF8(text, "\uFFFD")}}, err
}

func sourceOf(o *unstructured.Unstructured) tool.Source {
	return tool.Source{
		ID:    fmt.Sprintf("kube:%s/%s/%s@%s", o.GetNamespace(), o.GetKind(), o.GetName(), o.GetResourceVersion()),
		Title: fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()),
	}
}
