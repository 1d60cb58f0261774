"""Changes of files: what calls changed, kept so that people can undo it.

Before a call changes a path, the log of its session gets a record of what was there and what will be, with
the content that is replaced, in one durable flush. Whenever the process ends, the path is then as it was or
as it was going to be, and both are on record. An undoing is a change like any other, so it can be undone.

`version_log` is the file: frames with checksums, appended only. It decides what counts as cut off by a
crash (the end, which is dropped) and what as damage (anything before the flushed mark in its head, which
stops all writing). `file_versions` has the recorded structs and decides which changes still count after
undoings (`known_changes`), and how much is kept of a file and of a session. `undo_report` has the structs
that people and clients see. `shared_versions` has the logs of sessions whose folder several machines share: they lie there. Undoing itself is in `tools/undo`; docs/undo.md is for users.

Begin with `file_versions`, then `version_log`.
Comes in: states of paths and contents before a change.
Goes out: `KnownChange`s, kept contents, reports.
Owns: the folder `callboard.versions` of a data folder, and of callboard's own folder in a shared root.
Imports: `runtime.disk`, `runtime.errors`.
"""
