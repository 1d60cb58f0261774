"""Taint tracking: what strangers may have written, followed through files, programs and the network.

A session that reads untrusted content (a web page, a marked file) is *tainted* for good: its model may
follow a stranger's instructions from then on, so the policy asks more often (`SessionTainted`, see
docs/permissions.md). Taint must survive a detour through the disk. So what a tainted session writes is
marked, and a session that reads a marked file is tainted by that.

Each call gets handles that wrap the real ones and share one `FileWatch`. `tracked_files` decides which
reads taint and which writes mark: it marks before the first byte changes and looks before and after a
read, so calls that overlap can't slip through. `tracked_processes` treats a program as a reader of every
marked file, and finds by file times what it may have written; in doubt the whole workspace is marked.
Until then `writers` has them: what changes while one runs counts as marked, and who runs beside one has heard from it.
`tracked_network` records where a call connected, and asks about hosts that nobody has decided about.
`marked_files` is the set of marks in memory, which follows the table of the store. `origins` says which files
came from elsewhere, and taint like marked ones.

Begin with `tracked_files`.
Comes in: the handles of a call, its session's taint, the marks on record.
Goes out: handles with the same protocols; at the end of a call, the paths to mark and to clear.
Owns: the set of marked paths.
Imports: `runtime.handles`, `runtime.processes`, `runtime.http` (URL), `runtime.changes`, `runtime.definitions`.
"""
