"""Backups of a store, its upkeep, and single sessions as files.

A backup must be consistent while the runtime goes on committing. `backup` copies all pages inside one read
transaction of SQLite, so the copy is the store as of one moment and no commit waits. File versions (what
files were before calls changed them) are logs beside the store; `versions` puts them into a table of the
backup, so it stays one file, and takes them out again. Logs only grow and say how far they were flushed,
so they too can be copied while calls append to them.

A restore replaces two things, store and versions. It makes both ready, writes a note, and then only goes
forward; `store/restore` finishes it at the next opening if it is cut off. The restored store gets a new
epoch, so clients throw away what they know of the old one. What was replaced is kept beside it.

`rescue` makes a new store of what is whole in a damaged one, and lists what is not; `salvage` reads that one,
its log page by page and its tables row by row. `aside` puts a store away with all that belongs to it, into a folder that is a data folder itself.

`upkeep` upgrades a store to the present format (after a backup) and gives free pages back to the disk.
`session_file` is the format of exported sessions: it decides what makes a file complete and sound, and
which of its events an import never takes over (grants, memories, marks).

`store_copy` copies the record of one store into another, between a file and a database, and compares every session.

Begin with `backup`.
Comes in: a data folder, a target or a backup.
Goes out: one file; sizes and formats; `Stored` events of an export.
Owns: the files it writes; it takes the lock of the data folder for all that changes a store.
Imports: `runtime.store`, `runtime.changes`, `runtime.disk`, `runtime.events`; apsw, trio (cancellation alone).
"""
