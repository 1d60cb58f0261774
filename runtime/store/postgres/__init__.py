"""The store in PostgreSQL: one record for many machines. Imported only where `postgresql://…` is the store.

**One set of statements.** `tables`, `projection`, `ledger` and `queries` have the SQL; here are only the words
that differ (`dialect`), the tables (`schema`), and a connection that takes those statements (`connection`).

**A commit is one round trip.** Its statements are sent without waiting for their results, and what a commit must
know is checked in the database, which does nothing where it is otherwise; `connection` says how.

**Whose commit counts.** Without a fence this node alone writes, which a lock of the database holds. With one,
`Fence.check` runs the first statements of each commit. Beside that, a row of a session is saved only where its
`head_seq` is the one that was read.

**A connection that breaks** in the middle of a commit leaves open whether it was done. The ledger waits for a
new connection, ends the process of the database that had the commit, and looks whether its events are there:
then it returns what was stored, and otherwise makes the commit again. Meanwhile sessions stand still.

The other modules: `address` reads the URL, `size` counts what is held, `trouble` says what went wrong and what to do, `store` opens it all.

Begin with `store`, then `connection`.
Comes in: the URL of a database; the appends and queries of a store.
Goes out: what a store returns; errors in words.
Owns: the tables in the database, with the advisory locks of migrations and of the one writer.
Imports: `runtime.store` (`threaded`, `ledger`, `projection`, `tables`, `health`), `runtime.redaction`; psycopg.
"""
