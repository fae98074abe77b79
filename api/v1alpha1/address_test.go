// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/interlock-dev/interlock/api/v1alpha1"
)

// What can be wrong with an address: it goes to another machine in the clear, or it is no address that we take.
const (
	inTheClear = 1 << iota
	wrong
)

// addresses are addresses with what is wrong with them.
var addresses = map[string]int{
	"https://search.tools.svc":                0,
	"https://search.tools.svc:8443/base/":     0,
	"https://[2001:db8::1]:8443/":             0,
	"https://search.tools.svc/@base":          0,
	"http://localhost:8080":                   0,
	"http://127.0.0.1:8080/base":              0,
	"http://[::1]:8080/":                      0,
	"http://search.tools.svc":                 inTheClear,
	"http://127.0.0.1.example.com/":           inTheClear,
	"http://localhost.example.com":            inTheClear,
	"http://127.0.0.2/":                       inTheClear,
	"http://[::2]/":                           inTheClear,
	"http://localhost@search.tools.svc/":      inTheClear | wrong,
	"http://localhost:8080@search.tools.svc/": inTheClear | wrong,
	"http://user@localhost/":                  wrong,
	"https://user:password@search.tools.svc":  wrong,
	"https://user@search.tools.svc/base":      wrong,
	"https://search.tools.svc\\@example.com/": wrong,
	"https://search.tools.svc?key=1":          wrong,
	"https://search.tools.svc/base?key=1":     wrong,
	"https://search.tools.svc/?":              wrong,
	"https://search.tools.svc#fragment":       wrong,
	"https://search.tools.svc/base/#fragment": wrong,
	"https://search.tools.svc/\x7f":           wrong,
	"https://sea rch.tools.svc":               wrong,
	"https://%zz.tools.svc/":                  wrong,
	" https://search.tools.svc":               wrong,
	"HTTP://search.tools.svc":                 wrong,
	"ftp://search.tools.svc":                  wrong,
	"file:///etc/passwd":                      wrong,
	"//search.tools.svc":                      wrong,
	"search.tools.svc":                        wrong,
	"/base":                                   wrong,
	"https:search.tools.svc":                  wrong,
	"https:///base":                           wrong,
	"https://":                                wrong,
	"http://[":                                wrong,
	"http://[/":                               wrong,
}

// addressRows makes two rows of each address, without and with plaintext allowed.
func addressRows[T client.Object](wantTLS, wantAddress string, set func(T, string, v1alpha1.PlaintextPolicy)) table[T] {
	rows := table[T]{}
	for address, faults := range addresses {
		var inAnyCase []string
		if faults&wrong != 0 {
			inAnyCase = append(inAnyCase, wantAddress)
		}
		unlessAllowed := inAnyCase
		if faults&inTheClear != 0 {
			unlessAllowed = append([]string{wantTLS}, inAnyCase...)
		}
		rows[address] = row[T]{func(o T) { set(o, address, "") }, unlessAllowed}
		rows[address+" refused"] = row[T]{func(o T) { set(o, address, v1alpha1.PlaintextRefused) }, unlessAllowed}
		rows[address+" allowed"] = row[T]{func(o T) { set(o, address, v1alpha1.PlaintextAllowed) }, inAnyCase}
	}
	return rows
}
