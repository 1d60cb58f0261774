"""Marks what background programs of an earlier process wrote, who was killed before it could look.

Until that is done, a session that reads a file there which changed since they began is tainted by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ...runtime.errors import CallboardError
from ...runtime.events import FilesMarked
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AppendEvents, JournalMessage
from ...runtime.processes import Written
from ...runtime.taint.marked_files import MarkedFiles, OpenLook
from ...runtime.taint.tracked_files import FileWatch
from ...runtime.taint.tracked_processes import mark_written
from ...runtime.taint.writers import Writer
from ...tools.processes.threads import run_read
from ...tools.sandbox.changes.scan import written_since


async def look_behind(
    journal: Mailbox[JournalMessage],
    marks: MarkedFiles,
    due: Iterable[tuple[OpenLook, Writer]],
) -> None:
    """Look for what was written in each workspace since its program began, and store the marks."""
    for each, writer in due:

        async def look(since_ns: int, workspace: str = each.workspace) -> Written | None:
            return await run_read(written_since, workspace, since_ns)

        watch = FileWatch(marks, each.workspace)
        await mark_written(watch, look, each.since_ns)
        marked, cleared = watch.end()
        event = FilesMarked(call_id="", marked=marked, cleared=(*cleared, each.row))
        with suppress(CallboardError):  # its session is gone: the next start looks again
            await journal.ask(AppendEvents(session_id=each.session_id, events=(event,)))
        marks.writers.end(writer)
