// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/internal/effect"
	"github.com/interlock-dev/interlock/internal/model"
)

// Models opens ModelBindings: it reads their Secret or script and makes a client, which it keeps until one of them changes
// or the binding goes. It is safe for concurrent use.
type Models struct {
	openai, scripted model.Factory
	reader           client.Reader
	bulkheads        effect.Bulkheads
	paces            effect.Paces
	breakers         effect.Breakers
	// wake is told of a binding whose breaker has changed.
	wake Waker[client.ObjectKey]

	mu   sync.Mutex
	open map[types.UID]openModel
}

// An openModel is a client, and what it was made of: of the credential only a digest.
type openModel struct {
	model.Model
	digest [sha256.Size]byte
}

// NewModels makes Models that use the given adapters. Reader reads Secrets and ConfigMaps from the API server itself: their
// contents are not cached.
func NewModels(openai, scripted model.Factory, reader client.Reader) *Models {
	return &Models{openai: openai, scripted: scripted, reader: reader, open: map[types.UID]openModel{}}
}

// Errors of Open.
var (
	errSecretMissing = errors.New("the Secret is missing")
	errScriptMissing = errors.New("the ConfigMap is missing")
	errScript        = errors.New("the script is wrong")
	errModel         = errors.New("the model can't work")
)

// openAIBaseURL is where requests go if the binding says nothing else.
const openAIBaseURL = "https://api.openai.com/v1"

// Open gives a client for the binding. It reads the binding's Secret or ConfigMap each time, so that a changed key counts
// at once.
func (ms *Models) Open(ctx context.Context, b *v1alpha1.ModelBinding) (model.Model, error) {
	factory, wrong := ms.openai, errModel
	if b.Spec.Scripted != nil {
		factory, wrong = ms.scripted, errScript
	}
	config, err := ms.config(ctx, b)
	if err != nil {
		return nil, err
	}
	digest := digestOf(config)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m, ok := ms.open[b.UID]; ok && m.digest == digest {
		return m.Model, nil
	}
	m, err := factory(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wrong, err)
	}
	ms.open[b.UID] = openModel{m, digest}
	return m, nil
}

func digestOf(c model.Config) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range []string{c.BaseURL, c.Model, c.APIKey.Reveal(), string(c.Script)} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (ms *Models) config(ctx context.Context, b *v1alpha1.ModelBinding) (model.Config, error) {
	switch {
	case b.Spec.OpenAI != nil:
		return ms.openAIConfig(ctx, b.Namespace, *b.Spec.OpenAI)
	case b.Spec.Scripted != nil:
		return ms.scriptedConfig(ctx, b.Namespace, *b.Spec.Scripted)
	}
	return model.Config{}, fmt.Errorf("%w: set one of openai and scripted", errModel)
}

func (ms *Models) openAIConfig(ctx context.Context, namespace string, spec v1alpha1.OpenAIModel) (model.Config, error) {
	config := model.Config{BaseURL: spec.BaseURL, Model: spec.Model}
	if config.BaseURL == "" {
		config.BaseURL = openAIBaseURL
	}
	if spec.APIKeySecret == nil {
		return config, nil
	}
	var secret corev1.Secret
	err := ms.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: spec.APIKeySecret.Name}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return model.Config{}, fmt.Errorf("reading Secret %s: %w", spec.APIKeySecret.Name, err)
	}
	key := secret.Data[spec.APIKeySecret.Key]
	if err != nil || len(key) == 0 {
		return model.Config{}, fmt.Errorf("%w: there is no Secret %s with an entry %s", errSecretMissing, spec.APIKeySecret.Name, spec.APIKeySecret.Key)
	}
	config.APIKey = model.NewSecret(string(key))
	return config, nil
}

func (ms *Models) scriptedConfig(ctx context.Context, namespace string, spec v1alpha1.ScriptedModel) (model.Config, error) {
	if spec.ConfigMap == nil {
		script, err := json.Marshal(map[string]any{"turns": spec.Turns})
		if err != nil {
			return model.Config{}, fmt.Errorf("%w: %w", errScript, err)
		}
		return model.Config{Script: script}, nil
	}
	var configMap corev1.ConfigMap
	err := ms.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: spec.ConfigMap.Name}, &configMap)
	if err != nil && !apierrors.IsNotFound(err) {
		return model.Config{}, fmt.Errorf("reading ConfigMap %s: %w", spec.ConfigMap.Name, err)
	}
	script, ok := configMap.Data[spec.ConfigMap.Key]
	if err != nil || !ok {
		return model.Config{}, fmt.Errorf("%w: there is no ConfigMap %s with an entry %s", errScriptMissing, spec.ConfigMap.Name, spec.ConfigMap.Key)
	}
	return model.Config{Script: []byte(script)}, nil
}

// Drop forgets the client of a binding that is gone.
func (ms *Models) Drop(uid types.UID) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.open, uid)
	ms.bulkheads.Drop(string(uid))
	ms.paces.Drop(string(uid))
	ms.breakers.Drop(string(uid))
}
