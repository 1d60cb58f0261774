"""Health: whether a store can be used, and whether it has what was acknowledged.

`store_health` is the one place that decides whether a store can be used; status, metrics, `/readyz` and all
new work ask it. It counts what is under way from its start, notes whether reads fail, looks whether the
file is where it was, and knows the room on the disk (`disk_room`) and what a check for damage found.

`last_commit` notes the last event, the last purge and the end of SQLite's log after each commit, apart from
the store, and compares them at the next opening; it also looks for commits that lie in that log behind a
damaged page.

Begin with `store_health`.
Comes in: the reads and writes of a store; the last event of each commit; a store that is about to be opened.
Goes out: why it can't be used, or what was lost, in words.
Owns: `callboard.db-last`, the ballast.
Imports: `runtime.errors`, `runtime.store` (`rows`, `tables.topics`); apsw.
"""
