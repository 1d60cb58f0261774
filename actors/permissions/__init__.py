"""Permissions: whether a call may run, and who said so.

Every call is decided about: the policy speaks first, then an answer that a person had remembered (a
grant), and where both leave it open a person is asked. When in doubt, the call does not run: without
people, when the channel crashes, when nobody answers in time, when an answer can't be stored.

A question is on record before anybody hears it, and its answer before anything follows from it. People
at the channel, people who answer by id, grants and the clock may all answer; whoever the store takes
first has answered, for it changes a question's row only from `waiting` (compare-and-swap). Calls of one
turn that ask the same are twins: one is asked about, the others follow it and share its answer. After
kill -9 the record is what is left: a resumed turn finds its question or its answer there, and deferred
questions, which no turn waits for, are asked again at the start. An answer binds to a digest of tool,
arguments, place and policy: what has changed since is asked about again.

Begin with `broker`, the actor, then `resolution`, which tells a question's life from top to bottom.
`decisions` holds policies and grants; `asking` says who is asked, how long they have and what counts as
an answer; `question` makes the events, scopes and grants of a question; `record` reads the store, sets
when a question expires and withdraws what would not run now; `edited_arguments` judges what an answer
allows, by the policy of that moment, with the arguments that a person changed. That a question *has*
expired is decided in `resolution`, by the clock that runs beside the people; whoever is late is refused
by the store (`runtime/store/tables/permissions`).
Comes in: `CheckPermissions`, `AskPerson`, `AnswerApproval`, `ShowApproval`, `RevokeGrant`.
Goes out: decisions and resolutions; `AppendEvents` to the journal; `WakeSession` to the directory.
Owns: the questions that are open in this process, and the grants that hold.
Imports: `calls`, `people`, and what is below `actors`.
"""
