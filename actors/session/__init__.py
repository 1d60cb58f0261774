"""The session actor: one conversation, at most one running turn, and who listens.

A session is the fold of its events. Whoever stores one does so through the journal, which puts what was
committed into the session's inbox, in order; only from there does the session fold and publish. So it
never shows what is not stored, and a cancellation during a commit can't leave an event stored and
unpublished. A result it may fold before it is stored; then what follows is held back until it is. An
input is acknowledged when it is on record; when no turn runs, the start of its turn is
in the same commit.

A session that has been idle is unloaded, also while somebody follows it: its followers rest in the
journal's inboxes, hear there what is stored meanwhile, and are taken over when it is loaded again.

The loop never waits for a turn. One task runs turn after turn until no input waits; a cancel or an
interrupting input reaches the running turn through its cancel scope, and is answered when everything of
the turn is gone. A crash throws the state away. The successor closes what was left open, resumes a turn
that waited for a person, and goes on with the inputs that wait.

Begin with `session`, from `run` to `_run_turns`. `recovery` closes, at start-up and on load, the turns
that a crash left open; `cancelling` ends what does not run; `rerun` decides whether the last turn may be set aside and run again;
`subscribers` decides who gets which update, and closes a follower that falls behind; `later_try` wakes a
session that a full disk stopped.
Comes in: `SubmitInput`, `RerunTurn`, `ResumeTurn`, `FollowSession`, `WakeSession`, `CancelTurn`,
`StopSession`, from the directory; committed events, from the journal.
Goes out: `AppendEvents` to the journal; updates into subscriptions, without waiting.
Owns: the conversation, the turn, the queue of inputs, the subscriptions, its model stream.
Imports: `conversation`, `model`, `turn`, `services`, and what is below `actors`.
"""
