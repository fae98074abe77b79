// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"errors"
	"net/url"
	"strings"

	"github.com/interlock-dev/interlock/internal/model"
)

// check finds what can never work in cfg. Its errors repeat neither the URL nor the key, as either may hold a credential.
func check(cfg model.Config) error {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil:
		return errors.New("the base URL cannot be parsed")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the base URL must begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("the base URL names no host")
	case u.User != nil:
		return errors.New("the base URL must not hold a user or a password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the base URL must not have a query or a fragment")
	case cfg.Model == "":
		return errors.New("the model's name is missing")
	case strings.ContainsFunc(cfg.APIKey.Reveal(), isNotKeyRune):
		// A line break at the end is the usual mistake when a Secret is made from a file.
		return errors.New("the API key holds white space, a line break or another character that no key has")
	}
	return nil
}

func isNotKeyRune(r rune) bool { return r <= ' ' || r > '~' }
