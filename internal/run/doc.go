// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run is the core: an agent run as a finite state machine. Decide takes a state and one event, and answers with the
// next state and what has to be done to get there. It is pure: no clock, no I/O, no randomness. Time and the outside world
// arrive in events; effects are data that the shell performs, in the order given, some before the state is recorded and
// some only after.
//
// A run:
//
//	            Prepared               ModelReplied with calls
//	Pending ─────────────► Thinking ──────────────────────────────► Acting
//	   │                    │  ▲ ▲ └─► (ModelFailed: back off, ask again)
//	   │                    │  │ └── ModelReplied, nothing of use       │
//	   │                    │  └─────────────────────────────────────────┘ every call has its result
//	   │                    ├── answer ─────────────────────────► Succeeded   Final
//	   │                    ├── no answer to be had ────────────► Failed      ModelFailed
//	   ├── deadline, cancel ┴── limits, deadline, cancel (Acting, too)
//	   └──────────────────────────────────────────────────────► Failed      MaxSteps Deadline Budget ToolFailed
//	                                                             Cancelled   Cancelled
//
// A call:
//
//	            policy refuses
//	(proposed) ───────────────► Rejected
//	     │ policy allows              ToolSucceeded
//	     └─────────────► Executing ─────────────────► Succeeded
//	                      ▲     │ ToolFailed, for good; or the run ends
//	           TimePassed │     ├──────────────────► Failed
//	                      │     ▼ ToolFailed, passing
//	                      └── Backoff
//
// Executing with nobody executing it (the process died) is an EffectLost: a call that changes nothing is made again.
package run
