// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package technologies

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// A page token is the place where the next page starts, and a sum over that place, the search and the dataset, so that a
// token of another search, of another dataset or with a changed place is refused rather than answered with the wrong page.
// There is no secret in the sum: whoever computes a token by hand gets a page that is free to read anyway. Hence tokens
// outlive a restart and work on every replica.
const (
	placeBytes = 4
	sumBytes   = 16
)

func (c *Catalog) token(asked searchArguments, place int) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(place)) //nolint:gosec // a place is below the number of features
	return base64.RawURLEncoding.EncodeToString(append(b, c.sum(asked, b)...))
}

// readToken gives the place where the page starts; ok is false if the token is not one of this search's.
func (c *Catalog) readToken(asked searchArguments) (place int, ok bool) {
	if asked.PageToken == "" {
		return 0, true
	}
	b, err := base64.RawURLEncoding.DecodeString(asked.PageToken)
	if err != nil || len(b) != placeBytes+sumBytes {
		return 0, false
	}
	place = int(binary.BigEndian.Uint32(b))
	// Compared as text: the decoder takes several spellings of the same bytes.
	return place, asked.PageToken == c.token(asked, place)
}

// sum covers what decides which technologies are found and in what order. The limit is not part of that.
func (c *Catalog) sum(asked searchArguments, place []byte) []byte {
	text := fmt.Sprintf("page token\n%q\n%q\n%q\n%q\n%q\n%x",
		c.set.Version, asked.Query, asked.AsOf, asked.Baseline, asked.Group, place)
	sum := sha256.Sum256([]byte(text))
	return sum[:sumBytes]
}

func badToken() *tool.Error {
	return tool.Errorf(tool.InvalidArguments,
		"at /pageToken: it is not of this search; pass a nextPageToken on with the same arguments, or leave it out to start again")
}
