"""Undoing by way of the daemon: it holds the workspaces that its calls work in."""

from __future__ import annotations

from ...client.client import connect
from ...config.daemon_file import RunningDaemon
from ...runtime.changes.undo_report import UndoReport
from ...runtime.wire.daemon import UndoChanges


async def undo_there(
    daemon: RunningDaemon, session_id: str, call_id: str | None, *, force: bool
) -> UndoReport:
    """What came of it; raises as `Session.undo` does."""
    wanted = UndoChanges(session_id=session_id, call_id=call_id, force=force)
    async with connect(daemon.url, daemon.token.reveal()) as client:
        return await client.request("session/undo", wanted, UndoReport)
