"""The store: every session's events, and the tables that follow from them.

**Events are the truth.** A session is a list of durable events with a gap-free `seq`. Rows (sessions,
messages, calls, approvals, usage, …) follow from events and are written in the same transaction, so they
can never disagree. `projection` decides which rows an event changes, `tables/` has the SQL by table.

**One writer.** The journal actor alone calls `Store.commit`, and a lock on the data folder keeps other
processes from writing. So whoever is first in the ledger was first: an answer changes a question only
while it waits, a start needs an answer that is `allowed`. `ledger` decides what a commit refuses and
runs the transaction; `codec` encodes events, checks that they can be read again, masks secrets, and gives
each a checksum, which every statement that reads events compares (`event_of`).

**Group commit.** While one commit is on its way to the disk, the journal collects the next appends and
commits them together: one fsync for many sessions. What nobody waits for goes with the next that
somebody does (docs/decisions/0016-a-session-goes-on-ahead-of-its-results.md). Each append of a commit is accepted or refused by
itself. A commit is shielded from cancellation, so its caller always learns what was stored.

**Three stores over one SQL layer.** `threaded` runs the writer in a worker thread and reads on connections
of their own, which never wait for it: of SQLite (`sqlite_store`), whose write-ahead log allows that, and of
PostgreSQL (`postgres`), for many machines. `memory_store` runs in the event loop and makes rows only when
somebody reads. Each query is written once, in `queries`, in the words of SQLite; `interface` makes the
asynchronous method of it.

**Reading grows with what is asked for, not with what is stored.** Each query has its index, and those of
what changes often hold only sessions at rest, so that a round of a turn does not pay for them
(docs/decisions/0013-indexes-of-what-rests.md).

**Whether it can be used** is decided in `health`, for everybody who asks. **When the disk is full,** `health.disk_room` gives up a ballast file: nothing new begins, and what runs can end.

**After a crash** SQLite recovers the last commit, and `health` finds out whether it did: it keeps a note
of what was acknowledged, apart from the store. `recovery` decides how open turns are closed: calls that
had started have an unknown outcome, questions to people stay open. `restore` finishes the restore of a
backup that was cut off. `migrations` brings older files up to date and refuses newer ones; `file`
decides whether a file is ours and whether its disk is local, and keeps the log longer than what is in it.

The other modules are vocabulary: `rows` (appends and rows), `lists` (filters, pages and what a reader may
see), `feeds` (topics, and which event belongs to which).

Begin with `interface`, then `ledger` and `projection`.
Comes in: `Append`s from the journal; queries from everybody.
Goes out: `Stored` events or refusals; rows.
Owns: `callboard.db` with its log, the ballast, the note of a restore. The only place of SQLite beside keys,
backups and vectors, and of PostgreSQL.
Imports: `runtime.events`, `runtime.definitions`, `runtime.disk`, `runtime.memory` (`Memory`),
`runtime.changes` (folder name), `runtime.redaction`; apsw.
"""
