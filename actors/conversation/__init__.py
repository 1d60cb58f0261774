"""What a session knows: the fold of its events, the same live and on load. No I/O.

Every event is folded exactly once and in order: on load from the store, live from the session's inbox. A
conversation therefore depends on nothing but the record, and a restart changes nothing in it. Events
that are new to the code must be folded or listed as ignored; the type checkers prove it.

The history consists of rounds: an input, an answer, the results of its calls. A finished round never
changes, so each wire format encodes it once. Compaction puts a summary in place of the oldest rounds;
running a turn again takes the last turn out of the history, and leaves what it did.

Begin with `conversation`: the history, open calls, marks, plan, and how each event changes them.
`inputs` has the queue of those that wait (to steer, to interrupt, in line), the options that they bring
for their turns, and the late answers about calls that were deferred. `unanswered` has what models read of
requests whose turns ended without an answer.
Comes in: stored events, one by one.
Goes out: nothing; the session and its turn read its attributes.
Owns: the state of one session, in memory.
Imports: `budget` and `model` for what they fold; `config.policy` for the hosts of a call; `runtime`.
"""
