// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/kube/cluster"
)

//go:embed schemas/*.json
var schemas embed.FS

// Tools gives the tools that change objects.
func (c *Changer) Tools() ([]tool.Tool, error) {
	var tools []tool.Tool
	for _, t := range []struct {
		name, title, description string
		make                     maker
	}{
		{"kube_scale", "Scale", "Sets the number of replicas of a Deployment, StatefulSet or ReplicaSet.", scale},
		{"kube_restart", "Restart", "Restarts the pods of a Deployment, StatefulSet or DaemonSet, as its update strategy says.", restart},
		{"kube_set_image", "Set image", "Sets the image of a container of a Deployment, StatefulSet or DaemonSet.", setImage},
		{"kube_patch", "Patch", "Changes fields of an object by a JSON merge patch (RFC 7386). Not its status, and of its metadata only labels and annotations.", patch},
		{"kube_delete_pod", "Delete pod", "Deletes a pod. If something owns it, that makes a new one.", deletePod},
	} {
		input, err := schemas.ReadFile("schemas/" + t.name + ".json")
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", t.name, err)
		}
		output, err := schemas.ReadFile("schemas/answer.json")
		if err != nil {
			return nil, fmt.Errorf("reading the schema of answers: %w", err)
		}
		tools = append(tools, tool.Tool{
			Name: t.name, Title: t.title, Description: t.description, InputSchema: input, OutputSchema: output,
			Preview: func(ctx context.Context, op tool.Operation) (*tool.Preview, error) {
				return c.preview(ctx, t.name, op, t.make)
			},
			Commit: func(ctx context.Context, op tool.Operation, p tool.Precondition) (*tool.Result, error) {
				return c.commit(ctx, t.name, op, p, t.make)
			},
		})
	}
	return tools, nil
}

// wanted are the arguments of all of them; each has those that its schema names.
type wanted struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Namespace  string         `json:"namespace"`
	Name       string         `json:"name"`
	Replicas   float64        `json:"replicas"`
	Container  string         `json:"container"`
	Image      string         `json:"image"`
	Patch      map[string]any `json:"patch"`
}

func read(arguments json.RawMessage) (wanted, error) {
	var w wanted
	if err := json.Unmarshal(arguments, &w); err != nil {
		return wanted{}, tool.Errorf(tool.InvalidArguments, "the arguments can't be read")
	}
	return w, nil
}

// workload is the target of those that take a Kind of apps/v1.
func (w wanted) workload() cluster.Target {
	return cluster.Target{APIVersion: "apps/v1", Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
}

func scale(arguments json.RawMessage, _ time.Time) (change, error) {
	w, err := read(arguments)
	t := w.workload()
	return change{
		target: t, kind: types.MergePatchType, summary: fmt.Sprintf("Scale %s to %d replicas.", t, int(w.Replicas)),
		patch: map[string]any{"spec": map[string]any{"replicas": int(w.Replicas)}},
	}, err
}

func restart(arguments json.RawMessage, at time.Time) (change, error) {
	w, err := read(arguments)
	t := w.workload()
	annotations := map[string]any{"kubectl.kubernetes.io/restartedAt": at.Format(time.RFC3339)}
	return change{
		target: t, kind: types.MergePatchType, summary: fmt.Sprintf("Restart all pods of %s.", t),
		patch: map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}}},
	}, err
}

func setImage(arguments json.RawMessage, _ time.Time) (change, error) {
	w, err := read(arguments)
	t := w.workload()
	containers := []any{map[string]any{"name": w.Container, "image": w.Image}}
	return change{
		target: t, kind: types.StrategicMergePatchType, summary: fmt.Sprintf("Run %s in container %s of %s.", w.Image, w.Container, t),
		patch: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}},
	}, err
}

func patch(arguments json.RawMessage, _ time.Time) (change, error) {
	w, err := read(arguments)
	if err != nil {
		return change{}, err
	}
	if err := checkPatch(w.Patch); err != nil {
		return change{}, err
	}
	if w.Kind == "Secret" && w.APIVersion == "v1" {
		// Nobody could approve what nobody may be shown.
		return change{}, tool.Errorf(tool.InvalidArguments, "at /kind: Secrets can't be changed here, since their values can't be shown to who approves")
	}
	t := cluster.Target{APIVersion: w.APIVersion, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
	return change{target: t, kind: types.MergePatchType, summary: fmt.Sprintf("Change fields of %s.", t), patch: w.Patch}, nil
}

// checkPatch keeps a patch to what an object is to be, and away from what it is and whose it is.
func checkPatch(patch map[string]any) error {
	for field, value := range patch {
		switch field {
		case "apiVersion", "kind", "status":
			return tool.Errorf(tool.InvalidArguments, "at /patch/%s: it can't be changed", field)
		case "metadata":
			metadata, ok := value.(map[string]any)
			if !ok {
				return tool.Errorf(tool.InvalidArguments, "at /patch/metadata: it is to be an object")
			}
			for name, of := range metadata {
				values, ok := of.(map[string]any)
				if !ok || (name != "labels" && name != "annotations") {
					return tool.Errorf(tool.InvalidArguments, "at /patch/metadata: only labels and annotations can be changed")
				}
				if _, ours := values[cluster.OperationsAnnotation]; ours {
					return tool.Errorf(tool.InvalidArguments, "at /patch/metadata/annotations: %s is this server's", cluster.OperationsAnnotation)
				}
			}
		}
	}
	return nil
}

func deletePod(arguments json.RawMessage, _ time.Time) (change, error) {
	w, err := read(arguments)
	t := cluster.Target{APIVersion: "v1", Kind: "Pod", Namespace: w.Namespace, Name: w.Name}
	return change{target: t, summary: fmt.Sprintf("Delete %s.", t)}, err
}
