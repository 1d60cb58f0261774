"""The daemon of a chat: a process of its own, which other commands may use when the chat is left.

chat ──fork──► daemon      before the chat has any thread, file or event loop
     ──which sessions it shows, and its inputs that wait, on a line; its end, however it comes──►
     ◄──that it serves; which sessions it stays for, once the chat has ended──

It has no terminal: what ends the chat's process group ends no turn of another command.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import trio

from ...runtime.definitions import InputSource
from ...runtime.errors import CallboardError
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.redaction import redacting_logger
from ..log_file import close_log_files
from .background import MAX_LINE_BYTES, SERVES, STOPPED, Background
from .holder import LEFT, holding
from .own_runtime import OwnRuntime

if TYPE_CHECKING:
    from .door import Door

logger = redacting_logger(__name__)

ENDED, CRASHED = 0, 1
"""How the process ended: nobody uses it any more, or never did; by a fault."""
LOOK_SECONDS = 0.02
"""Time between two looks at who uses it, when the chat has ended."""
COMING_LOOKS = 25
"""Looks until the chat learns that the process stays: connections end a moment after the chat."""


def fork_daemon(own: OwnRuntime) -> Background:
    """Start the daemon of a chat, which ends by itself if another process is the daemon already.

    For a process without threads and event loops: the new one begins as its copy.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    if (process := os.fork()) == 0:
        _become(own, theirs)
    theirs.close()
    ours.setblocking(False)
    return Background(process, ours)


def _become(own: OwnRuntime, line: socket.socket) -> NoReturn:
    code = CRASHED
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        close_log_files()
        gc.freeze()  # what is garbage by now may close numbers that are other files' later
        kept = line.fileno()
        os.closerange(3, kept)  # of the shell: pipes whose end somebody waits for
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        code = trio.run(_serve, own, line)
    except CallboardError:
        pass  # the chat meets the same error, and says it
    except Exception:
        logger.exception("the daemon of a chat crashed")
    finally:
        os._exit(code)


async def _serve(own: OwnRuntime, line: socket.socket) -> int:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with holding(own, logger.warning) as holder:
            if (door := holder.door) is None:
                return ENDED  # another process was faster
            assert door.gateway is not None
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(line))
            with suppress(trio.BrokenResourceError):  # the chat was killed
                await stream.send_all(SERVES)
            async with open_service_nursery("the daemon ends") as nursery:
                nursery.start_soon(door.obey, signals, name="signals")
                nursery.start_soon(_until_left, door, stream, nursery.cancel_scope, name="the chat")
                await door.gateway.stopped.wait()
                await door.drain()
                return STOPPED
    return ENDED


async def _until_left(door: Door, chat: trio.SocketStream, scope: trio.CancelScope) -> None:
    """End the scope when the chat has ended, and nobody else uses this process any more."""
    said = b""
    with suppress(trio.BrokenResourceError):
        while data := await chat.receive_some():
            said = (said + data)[-MAX_LINE_BYTES:]
    ids = said.decode().split("\n")[-2:][0].split()  # the last whole line
    inputs = {each for each in ids if each.startswith("input_")}
    for session_id in [each for each in ids if each not in inputs]:
        await _end_turn(door, session_id, inputs)
    looks = 0
    while (sessions := await door.at_work()) or door.has_clients:
        looks += 1
        if looks == COMING_LOOKS:
            with suppress(trio.BrokenResourceError):  # the chat was killed
                await chat.send_all(f"{' '.join(sorted(sessions))}\n".encode())
        await trio.sleep(LOOK_SECONDS)
    scope.cancel(reason="nobody uses it")


async def _end_turn(door: Door, session_id: str, inputs: set[str]) -> None:
    """Cancel what the chat left at work, last what runs; what waits for a person goes on waiting.

    Of what waits behind the turn: these inputs, and all from people where nobody else is connected who may have sent them.
    """
    from ...gateway.lifecycle import working

    runtime = door.runtime
    if session_id in await working(runtime, (session_id,)):
        with suppress(CallboardError):
            session = await runtime.get_session(session_id)
            for each in reversed(await runtime.store.open_inputs(session_id)):
                is_own = each.input_id in inputs or not door.has_clients
                if each.turn_id is None and each.source is InputSource.PERSON and is_own:
                    await session.cancel(LEFT, input_id=each.input_id)
            if session_id in await door.at_work():
                await session.cancel(LEFT)
