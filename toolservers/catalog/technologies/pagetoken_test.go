// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// allPages gives every ID, page by page.
func allPages(t *testing.T, d *desk, arguments map[string]any) []string {
	t.Helper()
	var all []string
	delete(arguments, "pageToken")
	for range 1000 {
		got, _ := call[searchAnswer](t, d, SearchTool, arguments)
		all = append(all, ids(got)...)
		if got.NextPageToken == "" {
			if len(all) != got.Total {
				t.Errorf("%d technologies on all pages, of %d", len(all), got.Total)
			}
			return all
		}
		arguments["pageToken"] = got.NextPageToken
	}
	t.Fatal("the pages do not end")
	return nil
}

func TestPages_coverAllOnce(t *testing.T) {
	d := openDesk(t)
	want := allPages(t, d, map[string]any{"query": "css", "limit": 50})
	if len(want) < 200 {
		t.Fatalf("only %d technologies for css", len(want))
	}
	seen := slices.Clone(want)
	slices.Sort(seen)
	if len(slices.Compact(seen)) != len(want) {
		t.Error("a technology is on two pages")
	}
	if diff := cmp.Diff(want, allPages(t, d, map[string]any{"query": "css", "limit": 49})); diff != "" {
		t.Errorf("pages of 49 differ from pages of 50:\n%s", diff)
	}
	if diff := cmp.Diff(want, allPages(t, openDesk(t), map[string]any{"query": "css", "limit": 50})); diff != "" {
		t.Errorf("another server has other pages:\n%s", diff)
	}
}

func TestPages_ofOneTechnologyEach(t *testing.T) {
	d := openDesk(t)
	want := allPages(t, d, map[string]any{"query": "grid", "limit": 50})
	if diff := cmp.Diff(want, allPages(t, d, map[string]any{"query": "grid", "limit": 1})); diff != "" {
		t.Errorf("pages of 1 differ from one page:\n%s", diff)
	}
}

func TestPages_tokenWorksOnEveryReplica(t *testing.T) {
	first, _ := call[searchAnswer](t, openDesk(t), SearchTool, map[string]any{"query": "css"})
	second, _ := call[searchAnswer](t, openDesk(t), SearchTool, map[string]any{"query": "css", "pageToken": first.NextPageToken, "asOf": "2026-09-22"})
	if slices.Contains(ids(second), ids(first)[0]) || len(second.Technologies) != 10 {
		t.Errorf("after %v comes %v", ids(first), ids(second))
	}
}

func TestPages_refuseForeignTokens(t *testing.T) {
	d := openDesk(t)
	base := map[string]any{"query": "css", "asOf": "2024-01-01", "baseline": "widely", "group": "css"}
	got, _ := call[searchAnswer](t, d, SearchTool, base)
	if got.NextPageToken == "" {
		t.Fatalf("one page only: %v", ids(got))
	}
	with := func(key, value string) map[string]any {
		changed := map[string]any{"pageToken": got.NextPageToken}
		maps.Copy(changed, base)
		changed[key] = value
		return changed
	}
	call[searchAnswer](t, d, SearchTool, with("query", "css"))
	for key, value := range map[string]string{"query": "css ", "asOf": "2024-01-02", "baseline": "newly", "group": "layout"} {
		d.refused(t, tool.InvalidArguments, SearchTool, with(key, value))
	}
	for name, token := range map[string]string{
		"another place":    "B" + got.NextPageToken[1:],
		"another sum":      got.NextPageToken[:10] + "AAAA" + got.NextPageToken[14:],
		"cut off":          got.NextPageToken[:20],
		"too long":         got.NextPageToken + "AAAA",
		"no base64":        "!!!!",
		"padded":           got.NextPageToken + "=",
		"another spelling": got.NextPageToken[:26] + nextLetter(got.NextPageToken[26]),
		"a line break":     got.NextPageToken + "\n",
	} {
		message := d.refused(t, tool.InvalidArguments, SearchTool, with("pageToken", token))
		if !strings.Contains(message, "pageToken") {
			t.Errorf("%s: %q", name, message)
		}
	}
}

// nextLetter changes only the bits that a token's last letter has to spare.
func nextLetter(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, c)^1])
}

func TestPages_refuseAPlaceBeyondTheEnd(t *testing.T) {
	d := openDesk(t)
	c := &Catalog{set: d.set}
	asked := searchArguments{Query: "xylophone", AsOf: d.set.Through}
	d.refused(t, tool.InvalidArguments, SearchTool, map[string]any{"query": "xylophone", "pageToken": c.token(asked, 1<<31)})
}
