"""Delegation: how a session gives tasks to sessions below it, and hears what came of them.

A child is a session like any other, with its own record; what ties it to its parent is on record too:
the parent's id, the call that started it, and whether that call waits for it (`is_detached`). So a call
that is run again after a crash finds the child that it started, and listens on. A child has no more
tools than its parent, no more budget than its parent has left, and starts with its parent's marks.

A call that waits and is cancelled cancels its child, and names it as left over when it isn't gone in
time. A child that nobody waits for goes on without its parent; its late result becomes an input of the
parent, in one commit with its marks, and wakes it. When a turn is cancelled, everything below its
session is ended, whichever turn started it. After kill -9 the children that nobody waits for go on or
are delivered when the next process starts.

Begin with `tree`: starting a child, and waiting for it. `limits` decides how deep and how wide the tree
may be; `detached` delivers late results, ends what is below a cancelled turn, and reads from a record
what came of a task. `calls_below` makes live events of a session of what its calls of `delegate` hear: which calls run
below it.
Comes in: calls of `delegate`; the end of turns that nobody waits for; cancelled turns.
Goes out: `CreateSession`, `SubmitInput`, `ResumeTurn`, `CancelTurn`, `WakeSession` to the directory;
    `AppendEvents` to the journal; `ChildCall` to who listens to the session above.
Owns: which calls have a child that runs; late results that a full disk did not take.
Imports: `calls`, and what is below `actors`.
"""
