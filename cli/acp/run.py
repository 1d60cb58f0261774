"""One run of `callboard acp`, which imports no parser of command lines: an editor keeps it for as long as it runs.

a daemon that runs, or one of the command's own ──► client ──► bridge ◄──► the editor
"""

from __future__ import annotations

import ctypes  # as Trio does
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...client.client import Client, connect_here
from ...config.files import load_settings
from ...providers.catalog.table import mask_environment_keys
from ...providers.provider import LENT_SIGN
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import CallboardError
from ...runtime.redaction import redacting_logger
from ...runtime.wire.providers import SelectedModel
from ..daemon.away import LOOK_SECONDS
from ..data_path import data_path
from ..exit_codes import ANSWERED, FAILED, INTERRUPTED
from ..log_file import start_logging
from ..sharing.holder import Holder, holding, running
from ..sharing.lending import Lender, read_rules, wish_of_command
from ..sharing.own_runtime import OwnRuntime
from ..terminal.complaint import complain
from ..terminal.output import Output
from .bridge import Bridge
from .connection import EditorConnection

if TYPE_CHECKING:
    from ..sharing.background import Background

logger = redacting_logger(__name__)

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEAVE_SECONDS = 5.0
"""Time for this command's daemon to end, with the turns of the editor that has gone."""

VALUES = ("--agent", "--config", "--data")
NO_VALUES = frozenset({"none", "null"})
"""What the parser takes for no value."""
AGENT = "general"


def plain_arguments(tokens: Sequence[str]) -> dict[str, str] | None:
    """Return the options of a command line that needs no more than reading: each once, with its value behind it.

    `None` is for any other, which the parser reads, or refuses, as it does for all commands.
    """
    found = dict(zip(tokens[::2], tokens[1::2], strict=False))
    is_plain = len(tokens) == 2 * len(found) and not found.keys() - {*VALUES}
    if not is_plain or any(
        value[:1] in {"", "-"} or value.lower() in NO_VALUES for value in found.values()
    ):
        return None
    return found


def serve_plainly(tokens: Sequence[str]) -> int | None:
    """Run `callboard acp` with these options, without the parser; return `None` where they need it."""
    if (found := plain_arguments(tokens)) is None:
        return None
    config, data = (
        None if name not in found else Path(found[name]) for name in ("--config", "--data")
    )
    return serve_editor(found.get("--agent", AGENT), config, data)


def serve_editor(agent: str, config: Path | None, data: Path | None) -> int:
    """Let an editor drive sessions on stdin and stdout until it has gone; return the exit code.

    Raises:
        CallboardError: The settings or the data folder are not fit.
    """
    forbid_core_dumps()
    settings = load_settings(config)
    folder = data_path(data)
    start_logging(folder, verbose=False)
    mask_environment_keys(settings, os.environ)
    own = OwnRuntime(
        data=folder,
        settings=settings,
        command="acp",
        workspace=folder / "workspaces",  # as of `callboard serve`: each session names its folder
        is_root=False,
        config=config,
    )
    background = None
    if running(folder) is None:
        from ..sharing.forked_daemon import fork_daemon  # mostly, where one runs, it stays

        background = fork_daemon(own)
    _return_memory()
    return trio.run(_serve, own, background, agent)


def _return_memory() -> None:
    """Give the system what importing needed and left: the editor keeps this process for hours.

    A megabyte of it, where the C library can (glibc).
    """
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


async def _serve(own: OwnRuntime, background: Background | None, agent: str) -> int:
    # Nothing but the protocol's own lines goes to the editor: what else is printed goes to stderr.
    descriptor = os.dup(1)
    os.dup2(2, 1)
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    with trio.open_signal_receiver(*HANDLED) as signals:
        async with trio.open_nursery() as nursery:
            job = _Acp(own, background, agent, Output(descriptor))
            nursery.start_soon(job.output.run, name="output")
            nursery.start_soon(job.watch_signals, signals, name="signals")
            nursery.start_soon(job.watch_output, name="output lost")
            error = await job.run()
            with trio.move_on_after(LEAVE_SECONDS, shield=True):
                await job.output.drain()
            nursery.cancel_scope.cancel(reason="the editor has gone")
    if error is not None:
        complain(str(error))
        return FAILED
    return job.code


class _Acp:
    """One run of the command."""

    def __init__(
        self, own: OwnRuntime, background: Background | None, agent: str, output: Output
    ) -> None:
        self.output = output
        self.code = ANSWERED
        self._own = own
        self._background = background
        self._agent = agent
        self._scope = trio.CancelScope()
        self._bridge: Bridge | None = None
        self._lent: str | None = None

    async def run(self) -> CallboardError | None:
        """Serve the editor until it has gone; return the error that ended it, if one did."""
        try:
            with self._scope:
                async with holding(self._own, logger.warning, self._background) as holder:
                    await self._speak(holder)
                    await holder.wait_others(logger.warning)
        except CallboardError as error:
            return error
        finally:
            if self._background is not None:
                with trio.move_on_after(LEAVE_SECONDS, shield=True):
                    await self._background.leave()
        return None

    async def _speak(self, holder: Holder) -> None:
        raised: CallboardError | None = None
        async with (
            connect_here(self._own.data, holder.rules.check) as client,
            trio.lowlevel.FdStream(os.dup(0)) as stream,
            trio.open_nursery() as nursery,
        ):
            try:
                await self._bring_model(client, holder)
                connection = EditorConnection(self.output, nursery)
                self._bridge = bridge = Bridge(connection, client, holder, self._agent, nursery)
                bridge.lent = self._lent
                nursery.start_soon(self._watch, holder, name="the daemon's end")
                await connection.run(stream)
            except CallboardError as error:
                raised = error
            nursery.cancel_scope.cancel(reason="the editor has gone")
        if raised is not None:
            raise raised

    async def _watch(self, holder: Holder) -> None:
        """End as this command's daemon does, when another command has stopped that."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            door, background = holder.door, self._background
            if door is not None and door.is_wanted_to_end:
                await door.drain()
                break
            if background is not None and background.was_stopped:
                break
        self._scope.cancel(reason="callboard stop")

    async def _bring_model(self, client: Client, holder: Holder) -> None:
        """Have this command's own keys and model in a daemon that is another command.

        Raises:
            CallboardError: The daemon's rules can't be read again.
        """
        if not holder.is_shared or holder.is_ours:
            return
        await read_rules(client)
        wish = wish_of_command(self._own.settings, None, None, None)
        with suppress(CallboardError):  # no model: a prompt says so
            await Lender(client, wish, self._take_model, logger.warning).lend()

    def _take_model(self, lent: SelectedModel) -> None:
        if LENT_SIGN in lent.model:
            self._lent = lent.model
            if self._bridge is not None:
                self._bridge.take_lent(lent.model)

    # ── the ways to end ──────────────────────────────────────────────────────────────────────────

    async def watch_signals(self, signals: AsyncIterator[int]) -> None:
        """End in order at a signal."""
        async for number in signals:
            self.code = INTERRUPTED
            self._scope.cancel(reason=signal.Signals(number).name)

    async def watch_output(self) -> None:
        """End when nobody reads the output any more."""
        await self.output.wait_lost()
        self._scope.cancel(reason="the editor has gone")
