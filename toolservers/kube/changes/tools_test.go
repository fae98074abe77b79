// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

func TestPatch_isOfWhatAnObjectIsToBe(t *testing.T) {
	for patch, allowed := range map[string]bool{
		`{"spec":{"paused":true}}`: true,
		`{"metadata":{"labels":{"team":"web"},"annotations":{"note":null}}}`: true,
		`{"data":{"key":"value"}}`:                                      true,
		`{"status":{"replicas":5}}`:                                     false,
		`{"kind":"Secret"}`:                                             false,
		`{"metadata":{"ownerReferences":[]}}`:                           false,
		`{"metadata":{"finalizers":null}}`:                              false,
		`{"metadata":{"labels":null}}`:                                  false,
		`{"metadata":null}`:                                             false,
		`{"metadata":{"annotations":{"interlock.dev/operations":"x"}}}`: false,
	} {
		arguments := `{"apiVersion":"apps/v1","kind":"Deployment","namespace":"n","name":"web","patch":` + patch + `}`
		_, err := patchOf(t, arguments)
		if refusal, refused := errors.AsType[*tool.Error](err); (err == nil) != allowed || (refused && refusal.Code != tool.InvalidArguments) {
			t.Errorf("%s: %v, want it allowed: %t", patch, err, allowed)
		}
	}
	if _, err := patchOf(t, `{"apiVersion":"v1","kind":"Secret","namespace":"n","name":"s","patch":{"data":{}}}`); err == nil {
		t.Error("a Secret can be changed")
	}
}

func patchOf(t *testing.T, arguments string) (change, error) {
	t.Helper()
	return patch(json.RawMessage(arguments), time.Time{})
}

func TestPatchFor_bindsTheChangeToAVersionAndAnOperation(t *testing.T) {
	ch, err := patchOf(t, `{"apiVersion":"v1","kind":"ConfigMap","namespace":"n","name":"c","patch":{"metadata":{"annotations":{"a":"b"}},"data":{"k":null}}}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ch.patchFor("7", []string{"op-2", "op-1"})
	want := `{"data":{"k":null},"metadata":{"annotations":{"a":"b","interlock.dev/operations":"op-2 op-1"},"resourceVersion":"7"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	// A dry run leaves no operation behind, and the change itself as it was.
	if got, err := ch.patchFor("7", nil); err != nil || string(got) != `{"data":{"k":null},"metadata":{"annotations":{"a":"b"},"resourceVersion":"7"}}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestTicket_isOfItsArgumentsOnly(t *testing.T) {
	given := ticket{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "uid", "digest"}
	if got, err := readTicket(given.String(), "digest"); err != nil || got != given {
		t.Errorf("got %v, %v", got, err)
	}
	for _, id := range []string{"", "!", given.String()} {
		if _, err := readTicket(id, "another digest"); err == nil {
			t.Errorf("%q is taken for other arguments", id)
		}
	}
}
