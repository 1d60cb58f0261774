"""The actor kernel: mailboxes, replies, restarts, and the queues that deliver events.

An actor is a class with private state, a `Mailbox` and `async def run`. Nobody else touches its state,
so it needs no locks. Messages go down the layers and answers come up on a `Reply` that travelled with
the request; `mailbox` explains why this can neither deadlock nor leave an asker waiting, and how an
actor serves a message in its sender's step.

The `supervisor` runs each actor in one nursery and contains its crashes: it logs the crash, throws the
actor away and makes a new one on the same mailbox, which rebuilds its state from the store. It also
decides after how many crashes an actor is given up, and whether the runtime ends with it.

Events don't travel in mailboxes. `delivery` has two queues that are filled synchronously: the journal
puts committed events into the `EventInbox` of their session before it acknowledges the commit, and the
session puts updates into the `Subscription` of each consumer, which may pause that consumer's turn. What
follows from events that are not stored yet waits in a `Hold`.
`lease_gate` keeps a node of a cluster from acting for longer than its lease.
`late_import` imports what only some runtimes need. `live_lists` tells who follows a list (agents, providers, settings) that it has changed. `service_nursery` is for
tasks that serve a block and end with it. `locks` decides which calls may run side by side (paths of one workspace, and slots). `user_code` decides what an
exception of the embedding program's own functions means: a crash of theirs, or the end of our task.

Begin with `mailbox`, then `supervisor`.
Comes in: messages, actors to run, committed events.
Goes out: replies, restarts, `Stored` and live events in order.
Owns: mailboxes, subscriptions, claims on paths.
Imports: `runtime.errors`, `runtime.events`, `runtime.definitions` (`Resource`), `runtime.redaction`.
"""
