// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package changes are the tools that change an object: each is a patch of one object, or the deletion of one. A preview is a
// dry run; a commit carries the version that was previewed, and the operation's ID into the object with the very change, so
// that the object itself tells whether it was done. The main type is Changer.
package changes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/kube/cluster"
	"github.com/interlock-dev/interlock/toolservers/kube/records"
)

// PreviewTooLarge is a code of ours: people could not be shown the whole change.
const PreviewTooLarge tool.Code = "PreviewTooLarge"

// maxChanges bounds a preview's diff, in bytes, so that the whole preview stays below what the protocol takes.
const maxChanges = 6000

// A Changer previews, commits and remembers changes. It is safe for concurrent use.
type Changer struct {
	cluster *cluster.Cluster
	records *records.Records
	// settleAfter is how long an intent without an answer may be a change under way, here or in another process.
	settleAfter time.Duration
	now         func() time.Time
}

// New makes a Changer. An operation without an answer counts as under way for the time settleAfter, which must be longer than
// a call can take.
func New(c *cluster.Cluster, r *records.Records, settleAfter time.Duration, now func() time.Time) *Changer {
	return &Changer{c, r, settleAfter, now}
}

// A change is what one call asks for.
type change struct {
	target cluster.Target
	// summary says it in a sentence.
	summary string
	// patch is nil for a deletion.
	patch map[string]any
	kind  types.PatchType
}

// A maker makes a change of arguments. At is the moment of the preview, which a change may have in it.
type maker func(arguments json.RawMessage, at time.Time) (change, error)

// ticket is the ID of a preview: all that the commit needs, so that nothing has to be kept.
type ticket struct {
	At        time.Time `json:"at"`
	UID       types.UID `json:"uid"`
	Arguments string    `json:"args"`
}

func (t ticket) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic("changes: a ticket is plain data: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func readTicket(id, arguments string) (ticket, error) {
	var t ticket
	text, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || json.Unmarshal(text, &t) != nil || t.Arguments != arguments {
		return ticket{}, tool.Errorf(tool.UnknownPreview, "there is no such preview of these arguments")
	}
	return t, nil
}

// preview tries the change, and says what would come of it.
func (c *Changer) preview(ctx context.Context, name string, op tool.Operation, of maker) (*tool.Preview, error) {
	as, err := c.cluster.As(op.Principal)
	if err != nil {
		return nil, err
	}
	at := c.now().UTC().Truncate(time.Second)
	ch, err := of(op.Arguments, at)
	if err != nil {
		return nil, err
	}
	live, err := as.Get(ctx, ch.target)
	if err != nil {
		return nil, err
	}
	ch.target.UID = live.GetUID()
	diff, err := c.try(ctx, as, ch, live)
	if err != nil {
		return nil, err
	}
	if len(diff) > maxChanges {
		return nil, tool.Refusef(http.StatusUnprocessableEntity, PreviewTooLarge, "the change is %d bytes long, and people can be shown %d", len(diff), maxChanges)
	}
	return &tool.Preview{
		ID: ticket{at, live.GetUID(), op.Identify(name).ArgumentsDigest}.String(), ResourceVersion: live.GetResourceVersion(),
		Summary: ch.summary, Changes: diff, Resources: []string{ch.target.String()},
	}, nil
}

func (c *Changer) try(ctx context.Context, as *cluster.As, ch change, live *unstructured.Unstructured) (string, error) {
	before, err := cluster.Comparable(live)
	if err != nil {
		return "", err
	}
	if ch.patch == nil {
		return udiff.Unified("before", "after", before, ""), as.Delete(ctx, ch.target, live.GetResourceVersion(), true)
	}
	patch, err := ch.patchFor(live.GetResourceVersion(), nil)
	if err != nil {
		return "", err
	}
	changed, err := as.Patch(ctx, ch.target, ch.kind, patch, true)
	if err != nil {
		return "", err
	}
	after, err := cluster.Comparable(changed)
	if err != nil {
		return "", err
	}
	if after == before {
		return "", tool.Refusef(http.StatusConflict, "NothingToChange", "%s is like that already", ch.target)
	}
	return udiff.Unified("before", "after", before, after), nil
}

// patchFor completes the patch: it applies to one version of the object, and says which operations have changed it.
func (ch change) patchFor(resourceVersion string, operations []string) ([]byte, error) {
	text, err := json.Marshal(ch.patch)
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("copying the patch: %w", err)
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"] = resourceVersion
	if len(operations) > 0 {
		annotations, ok := metadata["annotations"].(map[string]any)
		if !ok {
			annotations = map[string]any{}
			metadata["annotations"] = annotations
		}
		annotations[cluster.OperationsAnnotation] = strings.Join(operations, " ")
	}
	text, err = json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return text, nil
}

// commit makes the change, once, if the object is as it was previewed.
func (c *Changer) commit(ctx context.Context, name string, op tool.Operation, given tool.Precondition, of maker) (*tool.Result, error) {
	identity := op.Identify(name)
	t, err := readTicket(given.PreviewID, identity.ArgumentsDigest)
	if err != nil {
		return nil, err
	}
	as, err := c.cluster.As(op.Principal)
	if err != nil {
		return nil, err
	}
	ch, err := of(op.Arguments, t.At)
	if err != nil {
		return nil, err
	}
	ch.target.UID = t.UID
	record, begun, err := c.records.Begin(ctx, records.Record{
		Identity: identity, Target: ch.target, ResourceVersion: given.ResourceVersion, Delete: ch.patch == nil,
	})
	if err != nil {
		return nil, err
	}
	if !begun {
		return c.again(ctx, as, identity, record)
	}
	version, err := c.apply(ctx, as, ch, op.ID, given.ResourceVersion)
	// What the API server refuses has not happened. All else may have, and is settled when somebody asks.
	if refusal, ok := errors.AsType[*tool.Error](err); ok {
		if refusal.Code == tool.NotFound {
			refusal = tool.Errorf(tool.ResourceChanged, "%s is not there any more; nothing was done", ch.target)
		}
		return nil, errors.Join(refusal, c.records.Withdraw(ctx, op.ID))
	}
	if err != nil {
		return nil, err
	}
	return c.finish(ctx, record, version)
}

// apply sends the change, and gives the version of the object that came of it.
func (c *Changer) apply(ctx context.Context, as *cluster.As, ch change, operation, resourceVersion string) (string, error) {
	live, err := as.Get(ctx, ch.target)
	switch {
	case err != nil:
		return "", err
	case live.GetUID() != ch.target.UID || live.GetResourceVersion() != resourceVersion:
		return "", tool.Errorf(tool.ResourceChanged, "%s has changed since the preview; nothing was done", ch.target)
	case ch.patch == nil:
		return resourceVersion, as.Delete(ctx, ch.target, resourceVersion, false)
	}
	const kept = 5
	operations := append([]string{operation}, operationsOf(live)...)
	patch, err := ch.patchFor(resourceVersion, operations[:min(len(operations), kept)])
	if err != nil {
		return "", err
	}
	changed, err := as.Patch(ctx, ch.target, ch.kind, patch, false)
	if err != nil {
		return "", err
	}
	return changed.GetResourceVersion(), nil
}

func operationsOf(o *unstructured.Unstructured) []string {
	return strings.Fields(o.GetAnnotations()[cluster.OperationsAnnotation])
}

// finish records that a change was made, and gives the answer.
func (c *Changer) finish(ctx context.Context, record records.Record, version string) (*tool.Result, error) {
	t := record.Target
	answer := tool.Answer{
		Data:    map[string]any{"done": true, "object": t.String(), "resourceVersion": version},
		Sources: []tool.Source{{ID: fmt.Sprintf("kube:%s/%s/%s@%s", t.Namespace, t.Kind, t.Name, version), Title: t.String()}},
	}
	result, err := answer.Result(c.now(), version)
	if err != nil {
		return nil, err
	}
	record.Answer = result
	if err := c.records.Finish(ctx, record); err != nil {
		return nil, err
	}
	return result, nil
}

// again answers a commit that has come before.
func (c *Changer) again(ctx context.Context, as *cluster.As, identity tool.Identity, first records.Record) (*tool.Result, error) {
	if err := identity.Repeats(first.Identity); err != nil {
		return nil, err
	}
	state, err := c.settle(ctx, as, first)
	switch {
	case err != nil:
		return nil, err
	case state.State == tool.InProgress:
		return nil, tool.Errorf(tool.OperationInProgress, "the very same operation is under way")
	}
	return state.Result, nil
}

// Operation implements tool.Ledger.
func (c *Changer) Operation(ctx context.Context, id, principal string) (tool.OperationState, error) {
	record, err := c.records.Find(ctx, id)
	if err != nil {
		return tool.OperationState{}, err
	}
	if record.Identity.Principal != principal {
		return tool.OperationState{}, tool.Errorf(tool.UnknownOperation, "nothing was done under this ID")
	}
	as, err := c.cluster.As(principal)
	if err != nil {
		return tool.OperationState{}, err
	}
	return c.settle(ctx, as, record)
}

// settle finds out what became of an operation. The object itself knows: what changes it leaves the operation's ID there.
func (c *Changer) settle(ctx context.Context, as *cluster.As, record records.Record) (tool.OperationState, error) {
	switch {
	case record.Answer != nil:
		return tool.OperationState{State: tool.Succeeded, Result: record.Answer}, nil
	case c.now().Sub(record.Begun) < c.settleAfter:
		return tool.OperationState{State: tool.InProgress}, nil
	}
	done, version, err := c.wasDone(ctx, as, record)
	if err != nil {
		return tool.OperationState{}, err
	}
	if !done {
		if err := c.records.Withdraw(ctx, record.Identity.ID); err != nil {
			return tool.OperationState{}, err
		}
		return tool.OperationState{}, tool.Errorf(tool.UnknownOperation, "nothing was done under this ID")
	}
	result, err := c.finish(ctx, record, version)
	return tool.OperationState{State: tool.Succeeded, Result: result}, err
}

// wasDone looks at the object. Of one that is gone it can't be said whether it was changed before.
func (c *Changer) wasDone(ctx context.Context, as *cluster.As, record records.Record) (done bool, version string, err error) {
	live, err := as.Get(ctx, record.Target)
	refusal, refused := errors.AsType[*tool.Error](err)
	gone := refused && refusal.Code == tool.NotFound || err == nil && live.GetUID() != record.Target.UID
	switch {
	case record.Delete && (gone || err == nil && live.GetDeletionTimestamp() != nil):
		return true, record.ResourceVersion, nil
	case gone:
		return false, "", fmt.Errorf("%s is gone, so it can't tell what changed it", record.Target)
	case err != nil:
		return false, "", fmt.Errorf("looking at %s: %w", record.Target, err)
	}
	return slices.Contains(operationsOf(live), record.Identity.ID), live.GetResourceVersion(), nil
}
