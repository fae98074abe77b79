// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/text"
)

// answer is the Approval that says what o does, of exactly what r shows.
func (r *request) answer(o decideOptions) *v1alpha1.Approval {
	return &v1alpha1.Approval{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Approval"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.run.Namespace, GenerateName: r.run.Name + "-" + r.asked.CallID + "-",
		},
		Spec: v1alpha1.ApprovalSpec{
			Run:    v1alpha1.RunReference{Name: r.run.Name, UID: string(r.run.UID)},
			CallID: r.asked.CallID, Tool: r.asked.Tool, Digest: r.subject().Digest(),
			Decision: o.decision, Reason: o.reason,
		},
	}
}

// named gives an Approval a name that follows from what it says, since what is kept in a repository is applied, and so needs
// one.
func (r *request) named(answer *v1alpha1.Approval) *v1alpha1.Approval {
	const enough = 8
	digest := strings.TrimPrefix(answer.Spec.Digest, "sha256:")
	answer.Name = answer.GenerateName + strings.ToLower(string(answer.Spec.Decision)) + "-" + digest[:min(enough, len(digest))]
	answer.GenerateName = ""
	return answer
}

// submit creates the Approval and, if that is wanted, waits for what comes of it.
func (a *app) submit(ctx context.Context, c client.WithWatch, answer *v1alpha1.Approval, o decideOptions) error {
	if err := c.Create(ctx, answer); err != nil {
		return fmt.Errorf("the API server did not take the Approval: %w", err)
	}
	a.out.printf("approval.interlock.dev/%s created\n", answer.Name)
	if !o.doWait {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := follow(limited, c, &v1alpha1.ApprovalList{}, client.ObjectKeyFromObject(answer), a.outcome)
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the Approval is there, but nothing was said of it within %s; look at it again with kubectl get approval %s", o.timeout, answer.Name)
	}
	return err
}

// outcome reports whether it is settled what comes of an Approval, and prints it.
func (a *app) outcome(o client.Object) (bool, error) {
	answer, ok := o.(*v1alpha1.Approval)
	if !ok {
		return false, nil
	}
	if c := meta.FindStatusCondition(answer.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return false, fmt.Errorf("the Approval has no effect: %s: %s", c.Reason, c.Message)
	}
	c := meta.FindStatusCondition(answer.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false, nil
	}
	a.out.printf("%s\n", text.Visible(c.Reason+": "+c.Message))
	return true, nil
}
