// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// List reads objects of one Kind in a namespace, a page at a time.
func (a *As) List(ctx context.Context, apiVersion, kind, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	r, err := a.resource(apiVersion, kind, namespace)
	if err != nil {
		return nil, err
	}
	list, err := r.List(ctx, options)
	return list, refusalOf(err)
}

// maxLog bounds the bytes of a log that are read.
const maxLog = 128 << 10

// Logs reads the end of a container's log.
func (a *As) Logs(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (string, error) {
	// The namespaces that are served are those of all objects.
	if _, err := a.resource("v1", "Pod", namespace); err != nil {
		return "", err
	}
	options.LimitBytes = new(int64(maxLog))
	stream, err := a.client.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return "", refusalOf(err)
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err != nil {
		return "", fmt.Errorf("reading the log: %w", err)
	}
	return string(text), nil
}
