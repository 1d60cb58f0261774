"""The protocol between a daemon and its clients: structs alone, shared by both sides.

The protocol is JSON-RPC 2.0 over WebSocket (docs/protocol.md). Each method has one struct for its
parameters and one for its result; both sides encode and decode with the same structs, so they can't differ.
Unknown fields are ignored when decoding, and fields are only added: this is what lets older and newer
programs talk to each other. Every text and list that a client can send has a limit (`fields`).

`rpc` has the frames and decides which error code each of our errors gets. `hello` is the handshake: versions,
epoch, role, limits. `topics` has subscriptions to topics and every notification. The rest is one module for
each noun of the methods: `sessions`, `turns` (also the log), `approvals` (with grants, questions and policy checks), `providers`
(with keys and models), `memories`, `agents`, `lists` (which have changed), and `daemon` (status, tokens, backups, configuration, undo, roots).
What a method does is in `gateway/methods`; names of Python classes are never on the wire.

Begin with `rpc`, then `sessions`.
Comes in: nothing; no function here does I/O.
Goes out: types for `gateway` and `client`.
Owns: the names of fields, which never change.
Imports: `runtime.definitions`, `runtime.events`, `runtime.store` (`rows`, `lists`, `feeds`),
`runtime.turns`, `runtime.changes` (report).
"""
