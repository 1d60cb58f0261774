"""The tables of the store: one module for each, with the SQL that writes and reads its rows.

Functions here take a connection (`connection` says what they need of one) inside of the ledger's transaction, and the session's integer key. The
projection calls those that write, `queries` uses the texts of `select` here. Two modules decide more than rows:
`permissions` decides who answered first, what may start and what is refused (`PermissionCheck`), and
`requests` that no request with an idempotency key is done twice. `deleted_messages` needs no table: it leaves out of
events what people have deleted.

`sessions` and `calls` hold the present state of each; `inputs` which inputs have no ended turn, and which
sessions wake by themselves; `usage` tokens, run times and what a session tree has spent; `memories` who
stored which; `topics` the order of events over all sessions; `search` the full-text index of messages,
filled when somebody searches; `messages` which of them can be deleted; `files` what came with them; `lists` the conditions of pages and of visibility; `purge` removes every row
of a session.

Begin with `calls`, the simplest; then `permissions`.
Comes in: events, one by one, from the projection.
Goes out: rows; `ConflictError` for what rows forbid.
Owns: the tables that `store.migrations` creates.
Imports: `runtime.store` (`codec`, `rows`, `lists`, `feeds`), `runtime.events`, `runtime.memory`.
"""
