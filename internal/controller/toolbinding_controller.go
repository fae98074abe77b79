// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/text"
	"github.com/interlock-dev/interlock/internal/tool"
	"github.com/interlock-dev/interlock/internal/toollint"
)

// +kubebuilder:rbac:groups=interlock.dev,resources=toolbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=interlock.dev,resources=toolbindings/status,verbs=update

// ToolBindingReconciler says whether runs may use a ToolBinding. It asks the MCP server of a binding what the tool looks
// like, beside the reconcile, and holds the answer against what was accepted.
type ToolBindingReconciler struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	Tools    *Tools
	// Breakers shows how the breakers of bindings stand.
	Breakers BreakerGauge
	// Admission says whether tools that write may be used.
	Admission Admission
	// Discoveries is where MCP servers are asked; Wake is what it wakes bindings with.
	Discoveries *Discoveries
	Wake        *Waker[client.ObjectKey]
}

// Discoveries performs the discoveries of bindings.
type Discoveries = effect.Executor[client.ObjectKey, discovery]

// NewDiscoveries makes an Executor for discoveries, with at most limit under way at once.
func NewDiscoveries(limit int, wake *Waker[client.ObjectKey]) *Discoveries {
	return effect.New[client.ObjectKey, discovery](limit, wake.Wake)
}

// A discovery is what an MCP server said of a tool.
type discovery struct {
	definition tool.Definition
	err        error
}

const (
	// discoveryTimeout is how long a server may take to describe its tool.
	discoveryTimeout = 30 * time.Second
	// discoveryPause is how long a binding waits after a server that could not be asked.
	discoveryPause = 15 * time.Second
)

var _ reconcile.ObjectReconciler[*v1alpha1.ToolBinding] = (*ToolBindingReconciler)(nil)

// Reconcile records whether the binding can be used, if that is news.
func (r *ToolBindingReconciler) Reconcile(ctx context.Context, b *v1alpha1.ToolBinding) (ctrl.Result, error) {
	breaker, halfOpen := breakerStatus(r.Tools.breaker(b), b.Status.Breaker, r.Clock.Now())
	r.Breakers.set("ToolBinding", b, breaker)
	v, definition, again := r.judge(ctx, b)
	again = sooner(again, halfOpen)
	if v.reason == "" {
		// What the server says is not known yet, and how the breaker stands is.
		return again, r.recordBreaker(ctx, b, breaker)
	}
	digest, err := rulesDigest(b)
	if err != nil {
		return ctrl.Result{}, err
	}
	rules := b.Status.RulesGeneration
	if digest != b.Status.RulesDigest || rules == 0 {
		rules = b.Generation
	}
	status := v1alpha1.ToolBindingStatus{
		Conditions:         weaknesses(v.conditions(b.Status.Conditions, b.Generation), b, definition),
		ObservedGeneration: b.Generation, RulesGeneration: rules, RulesDigest: digest,
		Definition: definition, Breaker: breaker,
	}
	if equality.Semantic.DeepEqual(b.Status, status) {
		return again, nil
	}
	known := b.DeepCopy()
	known.Status.Breaker = breaker
	if equality.Semantic.DeepEqual(known.Status, status) {
		return again, r.recordBreaker(ctx, b, breaker)
	}
	updated := b.DeepCopy()
	updated.Status = status
	if err := v.record(ctx, r.Client, r.Recorder, updated); err != nil {
		return again, err
	}
	tellBreaker(r.Recorder, updated, b.Status.Breaker, breaker)
	return again, nil
}

// recordBreaker writes how the breaker stands, if that is news.
func (r *ToolBindingReconciler) recordBreaker(ctx context.Context, b *v1alpha1.ToolBinding, breaker *v1alpha1.BreakerStatus) error {
	if equality.Semantic.DeepEqual(b.Status.Breaker, breaker) {
		return nil
	}
	updated := b.DeepCopy()
	updated.Status.Breaker = breaker
	return recordBreaker(ctx, r.Client, r.Recorder, updated, b.Status.Breaker, breaker)
}

// judge gives the verdict on a binding, and the definition that it rests on. An empty verdict: it is not known yet.
func (r *ToolBindingReconciler) judge(ctx context.Context, b *v1alpha1.ToolBinding) (verdict, *v1alpha1.ToolDefinition, ctrl.Result) {
	if missing := r.Admission.Missing(ctx); missing != "" && b.Spec.Effect == v1alpha1.EffectWrite {
		return verdict{reason: v1alpha1.ReasonAdmissionMissing, passing: true, message: fmt.Sprintf(
			"Interlock's admission policies are not in place, so nothing is written: %s. Install config/admission again.", missing)}, b.Status.Definition, ctrl.Result{}
	}
	server, err := r.Tools.Connect(b)
	if err != nil {
		return verdict{reason: v1alpha1.ReasonInvalidBackend, message: err.Error()}, b.Status.Definition, ctrl.Result{}
	}
	definition := b.Status.Definition
	if b.Spec.Backend.MCP == nil {
		definition = nil
	} else {
		discoverer, ok := server.(tool.Discoverer)
		if !ok {
			return verdict{reason: v1alpha1.ReasonInvalidBackend, message: "the backend can't describe its tools"}, definition, ctrl.Result{}
		}
		found, known := r.discovered(ctx, b, discoverer)
		switch {
		case !known:
			return verdict{}, definition, ctrl.Result{}
		case found.err != nil && notReady(b.Status.Conditions, b.Generation) == "":
			// What was accepted stays in service: a server that is down refuses calls by itself.
			return verdict{}, definition, ctrl.Result{RequeueAfter: discoveryPause}
		case found.err != nil:
			return discoveryFailed(found.err), definition, ctrl.Result{RequeueAfter: discoveryPause}
		}
		if v := drift(b, found.definition.Digest); v.reason != "" {
			return v, definition, ctrl.Result{}
		}
		definition = definitionOf(found.definition)
	}
	looked := b.DeepCopy()
	looked.Status.Definition = definition
	if _, err := r.Tools.Open(looked); err != nil {
		return verdict{reason: v1alpha1.ReasonInvalidSchema, message: err.Error()}, definition, ctrl.Result{}
	}
	return verdict{reason: v1alpha1.ReasonAvailable, message: "Runs may use this tool.", ready: true}, definition, ctrl.Result{}
}

// discovered gives what the server says of the tool; false while it has not answered. A binding is woken when it has.
func (r *ToolBindingReconciler) discovered(ctx context.Context, b *v1alpha1.ToolBinding, server tool.Discoverer) (discovery, bool) {
	key := client.ObjectKeyFromObject(b)
	id := fmt.Sprintf("%s/%d", b.UID, b.Generation)
	finished := r.Discoveries.Finished(key)
	// What was found out about an older generation goes, too.
	r.Discoveries.Acknowledge(key, slices.Collect(maps.Keys(finished))...)
	if found, ok := finished[id]; ok {
		return found, true
	}
	name := serverToolName(b)
	r.Discoveries.Start(ctx, effect.Job[client.ObjectKey, discovery]{
		Owner: key, ID: id, Deadline: r.Clock.Now().Add(2 * discoveryTimeout), Timeout: discoveryTimeout,
		Do: func(ctx context.Context) discovery {
			d, err := server.Discover(ctx, name)
			return discovery{d, err}
		},
	})
	return discovery{}, false
}

// weaknesses adds what a person should look at in the schema and the rules of a binding.
func weaknesses(conditions []metav1.Condition, b *v1alpha1.ToolBinding, definition *v1alpha1.ToolDefinition) []metav1.Condition {
	t := toollint.Tool{Effect: string(b.Spec.Effect), Protocol: string(b.Spec.Protocol), Idempotency: string(b.Spec.Idempotency)}
	if b.Spec.Approval != nil {
		t.Approval = string(b.Spec.Approval.Policy)
	}
	switch {
	case b.Spec.InputSchema != nil:
		t.Schema = b.Spec.InputSchema.Raw
	case definition != nil && definition.InputSchema != nil:
		t.Schema = definition.InputSchema.Raw
	}
	var found []string
	if t.Schema != nil {
		for _, f := range toollint.Lint(t) {
			found = append(found, text.Visible(f.String()))
		}
	}
	if len(found) == 0 {
		meta.RemoveStatusCondition(&conditions, v1alpha1.ConditionWeakSchema)
		return conditions
	}
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.ConditionWeakSchema, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOpenArguments,
		Message: text.Clip(strings.Join(found, "; "), maxCondition), ObservedGeneration: b.Generation,
	})
	return conditions
}

func discoveryFailed(err error) verdict {
	message := "The MCP server could not be asked for its tools."
	if e, ok := errors.AsType[*tool.Error](err); ok {
		message = fmt.Sprintf("The MCP server could not be asked for the tool: %s: %s", e.Code, e.Message)
	}
	return verdict{reason: v1alpha1.ReasonDiscoveryFailed, message: message, passing: true}
}

// drift compares the digest of what the server describes with the one that was accepted: by a person in the spec or, if
// there is none, the first that was seen.
func drift(b *v1alpha1.ToolBinding, digest string) verdict {
	accepted := b.Spec.Backend.MCP.DefinitionDigest
	if accepted == "" && b.Status.Definition != nil {
		accepted = b.Status.Definition.Digest
	}
	if accepted == "" || accepted == digest {
		return verdict{}
	}
	return verdict{reason: v1alpha1.ReasonSchemaDrift, message: fmt.Sprintf(
		"The MCP server describes the tool otherwise than when it was accepted (%s). If the new definition is right, set spec.backend.mcp.definitionDigest to %s.",
		accepted, digest)}
}

func definitionOf(d tool.Definition) *v1alpha1.ToolDefinition {
	const maxDescription = 4096
	out := &v1alpha1.ToolDefinition{Digest: d.Digest, Description: text.Clip(text.Clean(d.Description), maxDescription)}
	if len(d.InputSchema) > 0 {
		out.InputSchema = &runtime.RawExtension{Raw: d.InputSchema}
	}
	return out
}

// SetupWithManager registers the reconciler.
func (r *ToolBindingReconciler) SetupWithManager(m ctrl.Manager) error {
	if err := m.Add(closeAtEnd(func() { r.Discoveries.Close(); r.Tools.Close() })); err != nil {
		return fmt.Errorf("adding the end of discoveries: %w", err)
	}
	b := ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.ToolBinding{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}, dropped(func(o client.Object) {
			r.Discoveries.Stop(client.ObjectKeyFromObject(o))
			r.Tools.Drop(o.GetUID())
			r.Breakers.set("ToolBinding", o, nil)
		}))).
		WatchesRawSource(r.Tools.wake.source(func(k client.ObjectKey) reconcile.Request { return reconcile.Request{NamespacedName: k} })).
		WatchesRawSource(r.Wake.source(func(k client.ObjectKey) reconcile.Request { return reconcile.Request{NamespacedName: k} }))
	for _, o := range r.Admission.Watched() {
		b = b.Watches(o, handler.EnqueueRequestsFromMapFunc(r.writers))
	}
	return b.Complete(reconcile.AsReconciler(m.GetClient(), r))
}

// writers wakes the bindings of tools that write.
func (r *ToolBindingReconciler) writers(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.ToolBindingList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing tool bindings")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Spec.Effect == v1alpha1.EffectWrite {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
