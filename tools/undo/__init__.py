"""Undo: taking back what calls changed in files.

Every change of a file tool is recorded before it happens: `recorded_files` puts what is there now, and
what is going to happen, into the session's log of versions, and only then lets the workspace act. An
undo plays this backwards, the latest change first. It is planned completely before anything is done,
on a tree that exists only in memory, so that a person can be shown the plan, and so that a path that
was changed since stops it. While it works, each step is recorded in the same log: an undo that a crash
interrupts can be run again, and a finished one can be undone.

Begin with `undo`: it chooses the changes and carries a plan out. `plan` decides what happens to each
path, `file_states` reads a path and keeps its content, `previews` says what would change inside of
texts, `recorded_files` is the handle of a call.
Comes in: the changes of `runtime.changes.version_log`, a workspace, a person's choice of call.
Goes out: `UndoPlan`, `UndoReport`, `ChangedCall`; files, put back.
Owns: nothing; the log belongs to the session's `VersionLog`.
Imports: `tools.workspace`, `tools.files` (how a size is said), runtime's changes and taint.
"""
