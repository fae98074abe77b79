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
//	   ├── deadline, cancel ┴── limits, deadline, cancel (Acting, too; AwaitingApproval is Acting with only people to wait for)
//	   └──────────────────────────────────────────────────────► Failed      MaxSteps Deadline Budget ToolFailed PolicyDenied
//	                                                             Cancelled   Cancelled
//
// Suspended is any of Pending, Thinking, Acting and AwaitingApproval while the run is held: see Holds.
//
// A call:
//
//	            policy refuses
//	(proposed) ───────────────► Rejected ◄── denied, expired, voided (before it is sent)
//	     │ policy allows
//	     ▼
//	   Ready ──► Previewing ──► Ready ──► AwaitingApproval ──► Approved     as its rules ask
//	     │                                                        │
//	     │ its turn: writes one by one, in the order of the reply │
//	     ├────────────────────────────────────────────────────────┘
//	     ▼                       ToolSucceeded
//	 Executing ─────────────────────────────────► Succeeded
//	  ▲  │   │ ToolFailed, for good; or the run ends
//	  │  │   ├──────────────────────────────────► Failed
//	  │  │   │ ToolFailed, passing                        TimePassed
//	  │  │   └──────────────────────────────────► Backoff ──────────► Executing, or Previewing
//	  │  │ a write in doubt, or lost
//	  │  ▼
//	LookingUp ──► Succeeded, Failed; Failed (OutcomeUnknown), which ends the run
//	     └ NothingDone: it is sent again, under the same operation ID
//
// A commit that finds what was previewed changed goes back to Ready, and what people approved is void. Executing with nobody
// executing it (the process died) is an EffectLost: a call that changes nothing is made again, a write is looked up.
//
// A run that is to end while a write is unsettled is Ending: nothing new begins, and it ends once the write is settled, or as
// OutcomeUnknown when its time is over.
package run
