"""Health: whether a store has what was acknowledged.

`last_commit` notes the last event after each commit, apart from the store, and compares the two at the
next opening; it also looks for commits that lie in SQLite's log behind a damaged page.

Begin with `last_commit`.
Comes in: the last event of each commit; a store that is about to be opened.
Goes out: what was lost, in words.
Owns: `callboard.db-last`.
Imports: `runtime.errors`; apsw.
"""
