// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOptions_refusesWhatWouldServeMoreThanIsMeant(t *testing.T) {
	needed := []string{"--namespaces=shop", "--records-namespace=tools"}
	for name, test := range map[string]struct {
		args      []string
		wantError string
	}{
		"all that it needs":       {needed, ""},
		"no namespaces":           {needed[1:], "--namespaces is required"},
		"namespaces without any":  {append([]string{"--namespaces= ,"}, needed[1:]...), "--namespaces is required"},
		"nowhere to record":       {needed[:1], "--records-namespace is required"},
		"no audience":             {append([]string{"--audience="}, needed...), "--audience is not to be empty"},
		"no time to settle":       {append([]string{"--settle-after=1ms"}, needed...), "--settle-after is to be a second at least"},
		"in the clear, for all":   {append([]string{"--listen=:8473"}, needed...), "can be reached from other machines"},
		"something that is extra": {append(slices.Clone(needed), "extra"), "unexpected argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(test.args, io.Discard)
			if (err == nil) != (test.wantError == "") || (err != nil && !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("got %v, want %q", err, test.wantError)
			}
		})
	}
	o, err := parseOptions([]string{"--namespaces=shop, web", "--records-namespace=tools"}, io.Discard)
	if diff := cmp.Diff([]string{"shop", "web"}, o.namespaces); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}
