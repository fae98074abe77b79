// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBoundedBody_failsAsSoonAsItsBoundIsPassed(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		wantErr error
	}{
		"shorter":         {"abc", nil},
		"at the bound":    {"abcd", nil},
		"one byte past":   {"abcde", errBodyTooLong},
		"far longer":      {strings.Repeat("a", 10_000), errBodyTooLong},
		"nothing is read": {"", nil},
	} {
		for reader, wrap := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			// The end comes together with the last bytes here, which must not hide that there were too many.
			"end with data": iotest.DataErrReader,
		} {
			t.Run(name+", "+reader, func(t *testing.T) {
				b := &boundedBody{ReadCloser: io.NopCloser(wrap(strings.NewReader(tc.body))), left: 4}
				got, err := io.ReadAll(b)
				if !errors.Is(err, tc.wantErr) || len(got) > 5 {
					t.Errorf("read %d bytes, %v, want %v", len(got), err, tc.wantErr)
				}
				if tc.wantErr != nil {
					if n, err := b.Read(make([]byte, 8)); n != 0 || !errors.Is(err, errBodyTooLong) {
						t.Errorf("read again: %d bytes, %v, want none and the same error", n, err)
					}
				}
			})
		}
	}
}
