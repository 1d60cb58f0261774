"""The runtime layer: the actor kernel, the store, and the vocabulary that every layer shares.

A session is a list of durable events (`events`); everything else follows from them. Actors (layer `actors`)
talk in `messages` through mailboxes (`kernel`), the journal commits events to the store (`store`), and rows
for queries follow in the same transaction. Tools act only through the protocols of `handles` and `processes`,
which other layers implement; models speak in the events of `stream`, whatever their provider.

The modules here are vocabulary, from bottom to top: `errors` (one shallow tree, named by whose fault it
is), `identity` (ids and idempotency keys), `text` (excerpts, surrogates, integers), `redaction` (the
masking of secrets in logs, errors and events), `budget`, `definitions` (tools, agents, tiers,
capabilities), `approval`, `history` (a conversation as providers need it, and its repair), `stream`,
`turn_options`, `handles`, `processes`, `channel` (where people are), `events`, `messages`.

The folders: `kernel` (actors), `store` (SQLite), `event_types`, `turns` (what runs now), `wire` (the
protocol), `http` (requests out), `taint`, `changes` (undo), `memory`, `backup`, `disk` (the data folder), `cluster` (several nodes on one database).

Begin with `events`, then `messages`.
Comes in: messages, events, queries, requests.
Goes out: the types that all layers use.
Owns: the data folder; sockets of outgoing requests.
Imports: nothing of callboard but itself.
"""
