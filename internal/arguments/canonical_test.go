// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package arguments_test

import (
	"strings"
	"testing"

	"github.com/interlock-dev/interlock/internal/arguments"
)

func TestCanonical_acceptsOneUnambiguousObject(t *testing.T) {
	for name, test := range map[string]struct{ raw, want string }{
		"keys are sorted and white space goes": {" { \"b\" : 1 , \"a\":[ 2 ] } ", `{"a":[2],"b":1}`},
		// RFC 8785, section 3.2.2 and appendix B.
		"numbers of the RFC":                 {`{"n":[333333333.33333329,4.50,2e-3,0.000000000000000000000000001,-0]}`, `{"n":[333333333.3333333,4.5,0.002,1e-27,0]}`},
		"escapes have one form":              {`{"s":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}`, `{"s":"€$\u000f\nA'B\"\\\\\"/"}`},
		"2^53 is the largest integer":        {`{"n":9007199254740992}`, `{"n":9007199254740992}`},
		"and -2^53 the smallest":             {`{"n":-9007199254740992}`, `{"n":-9007199254740992}`},
		"nothing stands for an empty object": {" \n", `{}`},
		"null is not left out":               {`{"a":null}`, `{"a":null}`},
		"composed and decomposed stay apart": {"{\"a\":\"\u00e9\",\"b\":\"e\u0301\"}", "{\"a\":\"\u00e9\",\"b\":\"e\u0301\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := arguments.Canonical(test.raw)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestCanonical_refusesWhatTwoParsersReadDifferently(t *testing.T) {
	for name, test := range map[string]struct{ raw, want string }{
		"not JSON":                      {`{"a":`, "end in the middle"},
		"prose":                         {`Sure! {"a":1}`, "not JSON"},
		"null":                          {`null`, "they are null"},
		"a string":                      {`"{}"`, "they are a string"},
		"an array":                      {`[{}]`, "they are an array"},
		"a duplicate key":               {`{"a":1,"a":2}`, `"/a" stands twice`},
		"a duplicate key by an escape":  {`{"a":1,"\u0061":2}`, `"/a" stands twice`},
		"a duplicate key further in":    {`{"o":[{"a":1,"a":1}]}`, `"/o/0/a" stands twice`},
		"a lone surrogate":              {`{"a":"\ud800"}`, "not JSON"},
		"invalid UTF-8":                 {"{\"a\":\"\xff\"}", "not JSON"},
		"a number that is not finite":   {`{"a":1e400}`, "too large"},
		"2^53+1":                        {`{"a":9007199254740993}`, "beyond 2^53"},
		"-2^53-1":                       {`{"a":-9007199254740993}`, "beyond 2^53"},
		"a large integer in exponents":  {`{"a":1e300}`, "beyond 2^53"},
		"NaN":                           {`{"a":NaN}`, "not JSON"},
		"two objects":                   {`{} {}`, "more after the object"},
		"a comment":                     {`{} // x`, "more after the object"},
		"too deep":                      {strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "nested deeper"},
		"too long":                      {`{"a":"` + strings.Repeat("x", arguments.MaxBytes) + `"}`, "bytes"},
		"a hostile key is shown safely": {"{\"\u202e\":1,\"\u202e\":1}", `\u202e`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := arguments.Canonical(test.raw)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %.80s, %v, want an error that has %q", got, err, test.want)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestOperationID_changesWithEachOfItsParts(t *testing.T) {
	base := arguments.OperationID("uid", "s1c1", []byte(`{}`))
	for name, other := range map[string]string{
		"run":       arguments.OperationID("uie", "s1c1", []byte(`{}`)),
		"call":      arguments.OperationID("uid", "s1c2", []byte(`{}`)),
		"arguments": arguments.OperationID("uid", "s1c1", []byte(`{"a":1}`)),
		"border":    arguments.OperationID("uids", "1c1", []byte(`{}`)),
	} {
		if other == base {
			t.Errorf("another %s has the same operation ID", name)
		}
	}
	if again := arguments.OperationID("uid", "s1c1", []byte(`{}`)); again != base {
		t.Errorf("the same call has two operation IDs: %s, %s", base, again)
	}
}

func TestObject_isAlwaysAnObject(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a": 1}`: `{"a":1}`, `null`: `{}`, `[1]`: `{}`, `{"a":`: `{}`, ``: `{}`, `"x"`: `{}`,
		`{"n":12345678901234567890}`: `{"n":12345678901234567890}`,
	} {
		if got := string(arguments.Object(raw)); got != want {
			t.Errorf("Object(%s) = %s, want %s", raw, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{}`, ``, `{"a":1,"a":2}`, `{"a":9007199254740993}`, `{"a":"\ud800"}`, `{"a":1e400}`, `[`, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := arguments.Canonical(raw)
		if err != nil {
			return
		}
		twice, err := arguments.Canonical(string(once))
		if err != nil || string(twice) != string(once) {
			t.Errorf("the canonical form %s of %q has another one: %s, %v", once, raw, twice, err)
		}
	})
}
