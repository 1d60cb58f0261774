"""Actors: the tasks that own the state of a runtime, and the folders of what they own.

An actor is a class with private state, a mailbox, and one loop. Nobody else touches its state, so there
are no locks. Requests go down, from the directory to the journal; answers come up on what was handed
down, a one-shot `Reply` or the send end of a bounded channel; what happened comes up as committed
events. So no module imports upward, and no two full mailboxes can wait for each other. What an actor can
do without waiting it does in the step of the sender, while it waits for a message itself. A loop never
awaits long work: that is a child task with its own cancel scope. When an actor crashes, the supervisor
throws its state away and starts a successor on the same mailbox; what counts is on record.

Six actors run: the directory and the journal (here), the session (`session`), its model stream
(`model`), the tool dispatcher (`calls`) and the permission broker (`permissions`). All else is what
they own: the fold of a session (`conversation`), a turn (`turn`), what it may use (`budget`), what its
tools act through (`handles`), whom it can reach (`people`), what it delegates (`delegation`), and what
is done with whole sessions (`upkeep`). In a cluster of several, `cluster` is this process's node.

Begin with `directory`, which loads, wakes and unloads sessions, then `session`. `journal` is the only
writer of the store and groups commits; `services` lists what all sessions of a runtime share.
Comes in: messages of `runtime/messages.py`, from the embedding program and the gateway.
Goes out: committed events in the inboxes of sessions; updates in the subscriptions of clients.
Owns: which sessions are live, and the write side of the store.
Imports: `tools`, `providers`, `config`, `runtime`. Inside, down this list: `directory`; `session`, `upkeep`;
`turn`; `conversation`, `permissions`, `services`; `budget`, `calls`; `handles`, `model`; `delegation`, `people`;
`cluster`.
"""
