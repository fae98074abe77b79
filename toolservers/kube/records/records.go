// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package records remembers operations in ConfigMaps, one each: the intent before the effect, and the answer after it. So a
// server that died in between knows what it was about to do, and to which object; whether it did is told by the object itself.
package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
	"github.com/interlock-dev/interlock/toolservers/kube/cluster"
)

// label is on every record.
const label = "interlock.dev/operation"

// keepFor is how long a record is kept.
const keepFor = 30 * 24 * time.Hour

// A Record is one operation.
type Record struct {
	Identity tool.Identity  `json:"identity"`
	Target   cluster.Target `json:"target"`
	// ResourceVersion is what the target had when the operation was allowed, and Begun is when it was begun.
	ResourceVersion string    `json:"resourceVersion"`
	Begun           time.Time `json:"begun"`
	// Delete: the operation deletes its target.
	Delete bool `json:"delete,omitempty"`
	// Answer is nil until the operation is known to have been done.
	Answer *tool.Result `json:"answer,omitempty"`
}

// Records keeps them in one namespace. It is safe for concurrent use, by several processes too.
type Records struct {
	maps client.ConfigMapInterface
	now  func() time.Time
}

// New makes Records over the ConfigMaps of a namespace.
func New(maps client.ConfigMapInterface, now func() time.Time) *Records { return &Records{maps, now} }

func nameOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "operation-" + hex.EncodeToString(sum[:20])
}

// Begin records the intent. If the operation is there already, begun is false, and the record is the one that is there.
func (r *Records) Begin(ctx context.Context, record Record) (there Record, begun bool, err error) {
	record.Begun = r.now().UTC()
	text, err := json.Marshal(record)
	if err != nil {
		return Record{}, false, fmt.Errorf("encoding a record: %w", err)
	}
	_, err = r.maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(record.Identity.ID), Labels: map[string]string{label: "true"}},
		Data:       map[string]string{"record": string(text)},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		there, err = r.Find(ctx, record.Identity.ID)
		return there, false, err
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("recording the intent: %w", err)
	}
	return record, true, nil
}

// Find gives the record of an operation. One that is not there is UnknownOperation.
func (r *Records) Find(ctx context.Context, id string) (Record, error) {
	m, err := r.maps.Get(ctx, nameOf(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Record{}, tool.Errorf(tool.UnknownOperation, "nothing was done under this ID")
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading a record: %w", err)
	}
	var record Record
	if err := json.Unmarshal([]byte(m.Data["record"]), &record); err != nil {
		return Record{}, fmt.Errorf("decoding a record: %w", err)
	}
	return record, nil
}

// Finish adds the answer.
func (r *Records) Finish(ctx context.Context, record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	_, err = r.maps.Update(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(record.Identity.ID), Labels: map[string]string{label: "true"}},
		Data:       map[string]string{"record": string(text)},
	}, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("recording the answer: %w", err)
	}
	return nil
}

// Withdraw takes back an intent of which nothing came.
func (r *Records) Withdraw(ctx context.Context, id string) error {
	err := r.maps.Delete(ctx, nameOf(id), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking back an intent: %w", err)
	}
	return nil
}

// Clear deletes the records that are older than 30 days.
func (r *Records) Clear(ctx context.Context) error {
	list, err := r.maps.List(ctx, metav1.ListOptions{LabelSelector: label + "=true"})
	if err != nil {
		return fmt.Errorf("listing records: %w", err)
	}
	for _, m := range list.Items {
		if r.now().Sub(m.CreationTimestamp.Time) < keepFor {
			continue
		}
		if err := r.maps.Delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting a record: %w", err)
		}
	}
	return nil
}
