// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package arguments turns what a model sent as a call's arguments into the exact bytes that a tool server is sent, or says
// why it cannot.
//
// Canonical accepts one unambiguous JSON object and gives its RFC 8785 form; Digest and OperationID are computed over that
// form; a Schema checks it. The package trusts nothing: size and depth are bounded before anything is built, and what two
// parsers could read differently is refused.
package arguments

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// Bounds on arguments.
const (
	// MaxBytes is the longest text that is looked at.
	MaxBytes = 128 << 10
	// MaxDepth is how deep objects and arrays may be nested.
	MaxDepth = 32
	// maxSafeInteger is 2^53: beyond it, different integers have the same canonical form (RFC 8785, appendix D).
	maxSafeInteger = 1 << 53
)

// Canonical gives the RFC 8785 form of raw, which must be one JSON object (RFC 8259) without duplicate keys, lone
// surrogates, numbers that are not finite and integers beyond 2^53. Nothing at all stands for {}: some models send that for
// a call without arguments. The error completes the sentence "The arguments must be one JSON object: …". O(n log n).
func Canonical(raw string) ([]byte, error) {
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("they have %d bytes, and %d are allowed", len(raw), MaxBytes)
	}
	if strings.TrimSpace(raw) == "" {
		return []byte("{}"), nil
	}
	if err := scan(raw); err != nil {
		return nil, err
	}
	canonical, err := jcs.Transform([]byte(raw))
	if err != nil {
		return nil, errors.New("they have no canonical form")
	}
	return canonical, nil
}

// scan reads raw token by token and refuses what is not one unambiguous object. jsontext refuses duplicate keys, invalid
// UTF-8 and lone surrogates by itself.
func scan(raw string) error {
	d := jsontext.NewDecoder(strings.NewReader(raw))
	if kind := d.PeekKind(); kind != jsontext.KindBeginObject {
		return fmt.Errorf("they are %s", kindName(kind))
	}
	for {
		token, err := d.ReadToken()
		if err != nil {
			return syntaxError(err, d.InputOffset())
		}
		if d.StackDepth() > MaxDepth {
			return fmt.Errorf("they are nested deeper than %d", MaxDepth)
		}
		if token.Kind() == jsontext.KindNumber {
			if err := checkNumber(token.String()); err != nil {
				return fmt.Errorf("at %s: %w", pointer(d), err)
			}
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more after the object, at byte %d", d.InputOffset())
	}
	return nil
}

func kindName(k jsontext.Kind) string {
	names := map[jsontext.Kind]string{
		jsontext.KindNull: "null", jsontext.KindTrue: "a boolean", jsontext.KindFalse: "a boolean",
		jsontext.KindString: "a string", jsontext.KindNumber: "a number", jsontext.KindBeginArray: "an array",
	}
	if name, ok := names[k]; ok {
		return name
	}
	return "not JSON"
}

func syntaxError(err error, offset int64) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return fmt.Errorf("the key at %s stands twice", quote(string(syntax.JSONPointer)))
		}
		return errors.New("a key stands twice")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("they end in the middle, at byte %d", offset)
	}
	return fmt.Errorf("they are not JSON from byte %d on", offset)
}

func checkNumber(literal string) error {
	v, err := strconv.ParseFloat(literal, 64)
	switch {
	case err != nil || math.IsInf(v, 0):
		return fmt.Errorf("the number %s is too large", quote(literal))
	case math.Abs(v) > maxSafeInteger && v == math.Trunc(v):
		return fmt.Errorf("the integer %s is beyond 2^53; send it as a string if the tool takes one", quote(literal))
	case math.Abs(v) == maxSafeInteger && !exactly(literal):
		return fmt.Errorf("the integer %s is beyond 2^53; send it as a string if the tool takes one", quote(literal))
	}
	return nil
}

// exactly reports whether literal, which rounds to ±2^53, is that number: 2^53+1 rounds to it, too.
func exactly(literal string) bool {
	n, err := strconv.ParseInt(literal, 10, 64)
	return err != nil || n == maxSafeInteger || n == -maxSafeInteger
}

func pointer(d *jsontext.Decoder) string { return quote(string(d.StackPointer())) }

// quote makes a short piece of what the model wrote fit to be shown.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.QuoteToASCII(s)
}

// Digest is "sha256:" and the hexadecimal SHA-256 of canonical.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// OperationID names one business effect: the hexadecimal SHA-256 of a fixed prefix, the run's UID, the call's ID and the
// canonical arguments, each ended by a zero byte but the last. The same call of the same run with the same arguments has
// the same ID, on every attempt and after every crash.
func OperationID(runUID, callID string, canonical []byte) string {
	h := sha256.New()
	for _, part := range []string{"interlock.dev/operation/v1", runUID, callID} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// Object is what goes back to a model as the arguments that it sent: raw if that is a JSON object, {} otherwise, since
// providers refuse a history that holds anything else.
func Object(raw string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(raw)) != nil {
		return json.RawMessage("{}")
	}
	return compact.Bytes()
}
