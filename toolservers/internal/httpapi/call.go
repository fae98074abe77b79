// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/interlock-dev/interlock/toolservers/internal/tool"
)

// A verb is one way to call a tool.
type verb struct {
	// fits says whether the tool is called that way.
	fits func(tool.Tool) bool
	// do gives the body of the answer.
	do func(ctx context.Context, runner *tool.Runner, name string, c call) (any, *tool.Error)
}

var verbs = map[string]verb{
	"invoke":  {func(t tool.Tool) bool { return !t.HasPreview() }, invoke},
	"preview": {tool.Tool.HasPreview, preview},
	"commit":  {tool.Tool.HasPreview, commit},
}

// call serves POST /v1/tools/{tool}:{verb}. It is taken apart by hand, since a ServeMux wildcard takes a whole segment.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("call")
	colon := max(strings.LastIndexByte(path, ':'), 0)
	name, word := path[:colon], strings.TrimPrefix(path[colon:], ":")
	v, known := verbs[word]
	switch {
	case !known:
		writeProblem(w, codeUnknownPath, "a tool is called at /v1/tools/{tool}:invoke, or at :preview and then :commit")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		writeProblem(w, codeMethodNotAllowed, "a tool is called with POST")
		return
	}
	who, err := h.authenticate(r)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	t, known := h.runner.Find(name)
	if !known {
		writeProblem(w, tool.UnknownTool, "there is no such tool")
		return
	}
	note(r).tool = name
	if !v.fits(t) {
		writeProblem(w, codeUnknownPath, "the tool is not called with :"+word)
		return
	}
	h.answer(w, r, name, v, who)
}

// answer reads what there is to know of the call, does it, and sends how it went.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, name string, v verb, who caller) {
	c, err := readCall(w, r)
	note(r).operationID = c.ID
	if err != nil {
		WriteError(w, r, err)
		return
	}
	c.Principal, c.Token = who.principal, who.token
	ctx := r.Context()
	if !c.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.deadline)
		defer cancel()
	}
	body, err := v.do(ctx, h.runner, name, c)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	h.write(w, r, body)
}

func invoke(ctx context.Context, runner *tool.Runner, name string, c call) (any, *tool.Error) {
	result, err := runner.Call(ctx, name, c.Operation)
	if err != nil {
		return nil, err
	}
	return invocation{c.ID, *result}, nil
}

func preview(ctx context.Context, runner *tool.Runner, name string, c call) (any, *tool.Error) {
	p, err := runner.Preview(ctx, name, c.Operation)
	if err != nil {
		return nil, err
	}
	return previewAnswer{c.ID, *p}, nil
}

func commit(ctx context.Context, runner *tool.Runner, name string, c call) (any, *tool.Error) {
	precondition, err := readPrecondition(c.header)
	if err != nil {
		return nil, err
	}
	result, err := runner.Commit(ctx, name, c.Operation, precondition)
	if err != nil {
		return nil, err
	}
	return invocation{c.ID, *result}, nil
}
