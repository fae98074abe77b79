// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// yamlToJSON writes a YAML document as JSON. It goes over the parsed tree rather than over Go values because a Go value
// would round numbers (9007199254740993, 1.10). Anchors are refused: a few of them make a small document enormous.
func yamlToJSON(doc []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	var root yaml.Node
	switch err := dec.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document")
	}
	var out bytes.Buffer
	if err := writeNode(&out, &root); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeNode(out *bytes.Buffer, n *yaml.Node) error {
	if n.Anchor != "" {
		return fmt.Errorf("line %d: anchors and aliases are not read", n.Line)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return writeNode(out, n.Content[0])
	case yaml.MappingNode:
		return writeMapping(out, n)
	case yaml.SequenceNode:
		return writeSequence(out, n)
	case yaml.ScalarNode:
		return writeScalar(out, n)
	case yaml.AliasNode:
		return fmt.Errorf("line %d: anchors and aliases are not read", n.Line)
	}
	return fmt.Errorf("line %d: not a value", n.Line)
}

// writeMapping writes keys as strings, and leaves repeated keys to the strict reader except within arguments, which it does
// not look into. Hence the check here.
func writeMapping(out *bytes.Buffer, n *yaml.Node) error {
	seen := map[string]bool{}
	out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" {
			return fmt.Errorf("line %d: a key must be a plain string", key.Line)
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: the key %s is there twice", key.Line, quote(key.Value))
		}
		seen[key.Value] = true
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeString(out, key.Value); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := writeNode(out, value); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeSequence(out *bytes.Buffer, n *yaml.Node) error {
	out.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeNode(out, item); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return writeString(out, n.Value)
	case "!!null":
		out.WriteString("null")
		return nil
	case "!!bool", "!!int", "!!float":
		// YAML has spellings that JSON has not (0x1F, 1_000, .5, True). To guess what was meant would be to round by other
		// means, so they are refused.
		if !json.Valid([]byte(n.Value)) {
			return fmt.Errorf("line %d: write %s as JSON does, or in quotes", n.Line, quote(n.Value))
		}
		out.WriteString(n.Value)
		return nil
	default:
		return fmt.Errorf("line %d: values tagged %s are not read", n.Line, quote(tag))
	}
}

func writeString(out *bytes.Buffer, s string) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(s)
}
