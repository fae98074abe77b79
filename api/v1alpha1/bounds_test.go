// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A bound is what the schema of a Kind asks of the value at one place. Zero fields ask for nothing.
type bound struct {
	MinLength, MaxLength, MinItems, MaxItems, Minimum, Maximum *int64
	Pattern                                                    string
	Enum, Required                                             []string
	// Default is what the API server fills in, as JSON.
	Default string

	// fit makes a text of n characters, or a little more, that is fine but perhaps for its length.
	fit func(n int) string
	// ruledOut are the values of Enum that a rule refuses.
	ruledOut []string
}

func text(shortest, longest int64) bound { return bound{MinLength: &shortest, MaxLength: &longest} }

func upTo(longest int64) bound { return bound{MaxLength: &longest} }

func number(least, most int64) bound { return bound{Minimum: &least, Maximum: &most} }

func atLeast(n int64) bound { return bound{Minimum: &n} }

// list is of a list that is left out rather than empty.
func list(most int64) bound { return bound{MinItems: new(int64(1)), MaxItems: &most} }

func atMost(items int64) bound { return bound{MaxItems: &items} }

func oneOf(values ...string) bound { return bound{Enum: values} }

func needs(fields ...string) bound { return bound{Required: fields} }

func (b bound) matching(pattern string) bound {
	b.Pattern = pattern
	return b
}

func (b bound) byDefault(value string) bound {
	b.Default = value
	return b
}

func (b bound) but(values ...string) bound {
	b.ruledOut = values
	return b
}

// like makes texts for tests by repeating an x after prefix.
func (b bound) like(prefix string) bound { return b.repeating(prefix, "x") }

// digits makes texts for tests by repeating a digit after prefix.
func (b bound) digits(prefix string) bound { return b.repeating(prefix, "0") }

// decimals makes numbers for tests with so many digits before the point.
func (b bound) decimals(digits int) bound {
	b.fit = func(n int) string {
		if n <= digits {
			return strings.Repeat("1", n)
		}
		return strings.Repeat("1", digits) + "." + strings.Repeat("1", n-digits-1)
	}
	return b
}

func (b bound) repeating(prefix, s string) bound {
	b.fit = func(n int) string { return prefix + strings.Repeat(s, max(n-len(prefix), 0)) }
	return b
}

// The bounds of each Kind are promises: whoever changes one changes it here, too.
func TestBounds_areThoseOfTheSchemas(t *testing.T) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			got := map[string]bound{}
			walk(schemaOf(t, name), "", func(path string, s schema) {
				if b := s.bound(); !cmp.Equal(b, bound{}, cmpopts.IgnoreUnexported(bound{})) {
					got[path] = b
				}
			})
			if diff := cmp.Diff(k.bounds, got, cmpopts.IgnoreUnexported(bound{})); diff != "" {
				t.Errorf("the bounds of the schema (+) are not those of the test (-):\n%s", diff)
			}
		})
	}
}

// The API server refuses what is out of bounds, and takes what is just within them.
func TestBounds_areKept(t *testing.T) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			try := k.writer(t)
			for _, path := range slices.Sorted(maps.Keys(k.bounds)) {
				for name, c := range k.bounds[path].cases() {
					t.Run(path+" "+name, func(t *testing.T) {
						_, err := try(t, path, c.change)
						if c.wantError == "" {
							check(t, err, nil)
							return
						}
						if all := complaints(err); !complain(all, c.field(path), c.wantError) {
							t.Errorf("the API server does not say of %s that it %q, but\n\t%s", c.field(path), c.wantError, strings.Join(all, "\n\t"))
						}
					})
				}
			}
		})
	}
}

// What is of a wrong type is refused: a limit is never misread. What is null counts as left out.
func TestBounds_nothingIsMisread(t *testing.T) {
	wrong := map[string][]any{
		"string":  {int64(1), true, []any{}, map[string]any{}},
		"integer": {"1", "", "unlimited", "Infinity", 1.5, 1e300, true, []any{int64(1)}, map[string]any{}},
		"array":   {"x", int64(1), map[string]any{}},
		"object":  {"x", int64(1), []any{}, false},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			try := k.writer(t)
			walk(schemaOf(t, name), "", func(path string, s schema) {
				if path == "" || path == "status" {
					return
				}
				for _, v := range wrong[s.Type] {
					if _, ok := v.([]any); ok && s.Format == "date-time" {
						// The API server takes any list for a time. Only the operator writes times.
						continue
					}
					t.Run(fmt.Sprintf("%s %v", path, v), func(t *testing.T) {
						_, err := try(t, path, func(any) any { return v })
						if all := complaints(err); !complain(all, boundCase{}.field(path), "") {
							t.Errorf("the API server does not refuse %v at %s, but says\n\t%s", v, path, strings.Join(all, "\n\t"))
						}
					})
				}
			})
		})
	}
}

// What a person has left out is filled in, with the value that the schema promises; null is the same as left out.
func TestBounds_haveDefaults(t *testing.T) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			try := k.writer(t)
			for path, b := range k.bounds {
				// What is filled in as an empty object gets the defaults of its fields.
				if b.Default == "" || b.Default == "{}" {
					continue
				}
				for how, v := range map[string]any{"left out": remove{}, "null": nil} {
					t.Run(path+" "+how, func(t *testing.T) {
						o, err := try(t, path, func(any) any { return v })
						check(t, err, nil)
						var got any
						replace(o.Object, path, func(v any) any {
							got = v
							return v
						})
						if asJSON(t, got) != b.Default {
							t.Errorf("%s is %s; want %s", path, asJSON(t, got), b.Default)
						}
					})
				}
			}
		})
	}
}

// A boundCase is a change to the value at a bound.
type boundCase struct {
	change func(old any) any
	// wantError is a part of what the API server says of the field, or of the one that is named below; empty if it takes it.
	wantError, below string
}

// field is the one that the API server must speak of.
func (c boundCase) field(path string) string {
	return strings.Trim(strings.ReplaceAll(path, "[]", "")+"."+c.below, ".")
}

// cases are the changes that tell whether a bound is kept.
func (b bound) cases() map[string]boundCase {
	cases := map[string]boundCase{}
	set := func(wantError string, values ...any) {
		for _, v := range values {
			cases[fmt.Sprintf("%q", asText(v))] = boundCase{func(any) any { return v }, wantError, ""}
		}
	}
	if b.Minimum != nil {
		set("should be greater than or equal to", *b.Minimum-1, int64(-1<<31))
		set("", *b.Minimum)
	}
	if b.Maximum != nil {
		set("should be less than or equal to", *b.Maximum+1, int64(1<<31-1))
		set("", *b.Maximum)
	}
	if b.fit == nil {
		b = b.like("")
	}
	if b.MinLength != nil {
		set("", b.fit(max(int(*b.MinLength), len(b.fit(0))+1)))
	}
	if b.MinLength != nil && *b.MinLength > 0 {
		set("should be at least", b.fit(0)[:min(len(b.fit(0)), int(*b.MinLength)-1)])
	}
	if b.MaxLength != nil {
		set("may not be more than", b.fit(int(*b.MaxLength)+1))
		set("", b.fit(int(*b.MaxLength)))
	}
	if b.Pattern != "" {
		fits := b.fit(max(3, int(*b.MaxLength)))
		for _, last := range []string{"/", " ", "\n"} {
			set("should match", fits[:len(fits)-1]+last)
		}
	}
	if b.MinItems != nil && *b.MinItems > 0 {
		cases["too few"] = boundCase{func(old any) any { return items(old, int(*b.MinItems)-1) }, "should have at least", ""}
	}
	if b.MaxItems != nil {
		cases["too many"] = boundCase{func(old any) any { return items(old, int(*b.MaxItems)+1) }, "must have at most", ""}
		cases["most"] = boundCase{func(old any) any { return items(old, int(*b.MaxItems)) }, "", ""}
	}
	for _, v := range b.Enum {
		set("Unsupported value", strings.ToLower(v), v+" ")
		if !slices.Contains(b.ruledOut, v) {
			set("", v)
		}
	}
	if len(b.Enum) > 0 {
		set("Unsupported value", "", "Other")
	}
	for _, field := range b.Required {
		cases["without "+field] = boundCase{without(field), "Required value", field}
		cases["with a null "+field] = boundCase{withField(field, nil), "Required value", field}
	}
	return cases
}

func asText(v any) string { return fmt.Sprintf("%.40v", v) }
