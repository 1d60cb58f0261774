"""Changes: what a program changed in its workspace, and how that can be undone.

Nobody sees a program write. So its workspace is scanned before and behind it (`scan`), and what differs is
reported by name. In a git repository, what git would keep is copied before it begins (`snapshot`; `git_files`
says what that is), so that `change_tracker` can put what the program replaced into the session's log of
versions, as one change of its call. All of it is bounded by time, number and size; what a bound left out is
reported as not undoable, with the reason. `scan` also has the look that taint tracking uses, and says why it
is another one.

Begin with `change_tracker`: `observe` before a program, `conclude` behind it.
Comes in: a workspace, and the log of versions of the call's session.
Goes out: `ChangedFiles` for the program's result; a `Change` in the log; `Written` for taint.
Owns: the copies of the workspaces that were used last, in files without names.
Imports: tools.sandbox.box (names that are protected), tools.workspace, search, undo, files; runtime.
"""
