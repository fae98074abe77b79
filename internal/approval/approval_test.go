// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/interlock-dev/interlock/internal/approval"
	"github.com/interlock-dev/interlock/internal/arguments"
)

// A vector is an example that testdata/vectors.py made, which shares no code with us.
type vector struct {
	Name, Arguments, CanonicalArguments, CanonicalPreview, Digest string
	Preview                                                       any
	Subject                                                       approval.Subject
}

func vectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no vectors")
	}
	return all
}

func TestDigest_isThatOfASecondImplementation(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			canonical, err := arguments.Canonical(v.Arguments)
			if err != nil || string(canonical) != v.CanonicalArguments {
				t.Errorf("the arguments are %s (%v), want %s", canonical, err, v.CanonicalArguments)
			}
			if got := arguments.Digest(canonical); got != v.Subject.ArgumentsDigest {
				t.Errorf("their digest is %s, want %s", got, v.Subject.ArgumentsDigest)
			}
			if got := arguments.OperationID(v.Subject.RunUID, v.Subject.CallID, canonical); got != v.Subject.OperationID {
				t.Errorf("the operation is %s, want %s", got, v.Subject.OperationID)
			}
			if v.Preview != nil {
				preview, err := approval.Canonical(v.Preview)
				if err != nil || string(preview) != v.CanonicalPreview || arguments.Digest(preview) != v.Subject.PreviewDigest {
					t.Errorf("the preview is %s (%v), want %s", preview, err, v.CanonicalPreview)
				}
			}
			if got := v.Subject.Digest(); got != v.Digest {
				t.Errorf("the digest is %s, want %s", got, v.Digest)
			}
		})
	}
}

// Each member counts: to change any is to ask for another approval.
func TestDigest_coversEverything(t *testing.T) {
	base := vectors(t)[0].Subject
	for i := range reflect.TypeFor[approval.Subject]().NumField() {
		changed := base
		switch f := reflect.ValueOf(&changed).Elem().Field(i); f.Interface().(type) {
		case string:
			f.SetString(f.String() + "x")
		case int64:
			f.SetInt(f.Int() + 1)
		case time.Time:
			f.Set(reflect.ValueOf(base.Expires.Add(time.Second)))
		default:
			t.Fatalf("what is %s?", f.Type())
		}
		if changed.Digest() == base.Digest() {
			t.Errorf("%s does not count", reflect.TypeFor[approval.Subject]().Field(i).Name)
		}
	}
}

// In another time zone it is the same instant.
func TestDigest_isOfAnInstant(t *testing.T) {
	s := vectors(t)[0].Subject
	elsewhere := s
	elsewhere.Expires = s.Expires.In(time.FixedZone("elsewhere", 3600))
	if s.Digest() != elsewhere.Digest() {
		t.Error("the digest depends on the time zone")
	}
}
