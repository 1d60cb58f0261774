"""The sockets of one sandbox that the runtime serves: its proxy, and those of its command.

They are made inside, by the first program there (`entrance`), in the sandbox's own network and files, and
handed out to the runtime before that becomes the requested program. So nothing of them lies on this machine's
disk, no port of it is taken, and no process in the sandbox passes bytes on. The program has no copy of what
was handed out: it can connect, and nothing else.
"""

from __future__ import annotations

import array
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import trio

from ....config.sections import SandboxSettings
from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.processes import Answerer, Command
from ..box.recipe import FILES
from .entrance import START
from .proxy import Connector, EgressProxy

PROXY_PORT = 3128
"""On the sandbox's own loopback, where nobody else listens; a common port of proxies."""
MAX_CONNECTIONS = 32
"""Connections to one socket at once; further ones wait. npm opens some fifteen."""
MAX_ANSWERED = 8
"""Sockets of one command: git takes one."""
MAX_ASKED_BYTES = 64 * 1024
"""The longest question to an answerer."""
ASK_SECONDS = 10.0
"""The time to send that, and again to receive the answer."""
RETRY_SECONDS = 0.1
"""After an `accept` that failed because the process has no descriptor left."""

PYTHON = os.path.join(sys.base_prefix, "bin", "python3")
"""The sandbox's test runs by it too."""

_NUMBER = array.array("i").itemsize
_ENTRANCE = "callboard.entrance"


class SandboxSockets:
    """The sockets that one sandbox is to have; close them when it has ended.

    `answers` says who answers on a socket, by its name below `FILES`.
    """

    def __init__(self, proxy: EgressProxy | None, answers: Mapping[str, Answerer]) -> None:
        self.proxy = proxy
        self._answers = dict(answers)
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None

    @property
    def has_names(self) -> bool:
        """Whether some of the sockets have names in the files of the sandbox."""
        return bool(self._answers)

    def enter(
        self, argv: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[tuple[str, ...], dict[str, bytes]]:
        """Return what to start in the program's place, and the files that it needs below `FILES`.

        It is `entrance`, which makes the sockets and becomes the program. It must inherit
        `descriptor`; call `entered` afterwards.
        """
        self._ours, self._theirs = socket.socketpair()
        port = PROXY_PORT if self.proxy is not None else 0
        proxy = proxy_environment() if self.proxy is not None else {}
        variables = [f"{name}={value}" for name, value in {**proxy, **environment}.items()]
        words = [str(port), str(len(self._answers)), str(len(variables))]
        start = "\0".join([*words, *self._answers, *variables, *argv]).encode()
        entrance = Path(__file__).with_name("entrance.py").read_bytes()
        begin = (PYTHON, "-I", "-S", f"{FILES}/{_ENTRANCE}", str(self.descriptor))
        return begin, {_ENTRANCE: entrance, START: start}

    @property
    def descriptor(self) -> int:
        """The descriptor that the sandbox is to inherit."""
        assert self._theirs is not None
        return self._theirs.fileno()

    def entered(self) -> None:
        """Close the sandbox's end, which it has inherited by now, or never will. Idempotent."""
        if self._theirs is not None:
            self._theirs.close()

    async def serve(self) -> None:
        """Serve the sockets until cancelled; return when there are none."""
        handlers: list[Callable[[trio.SocketStream], Awaitable[None]]] = []
        if self.proxy is not None:
            handlers.append(self.proxy.serve)
        handlers += [_answering(answerer) for answerer in self._answers.values()]
        listeners = await self._handed_out(len(handlers))
        try:
            async with trio.open_nursery() as nursery:
                for listener, handler in zip(listeners, handlers, strict=False):
                    nursery.start_soon(_accept, listener, handler)
        finally:
            for listener in listeners:
                listener.close()

    def close(self) -> None:
        """Close what is left. Idempotent."""
        for each in (self._ours, self._theirs):
            if each is not None:
                each.close()

    async def _handed_out(self, count: int) -> list[trio.socket.SocketType]:
        """Receive the sockets, in the order of the handlers; none when the sandbox ended before."""
        assert self._ours is not None
        own = trio.socket.from_stdlib_socket(self._ours)
        # Close-on-exec: what another thread starts meanwhile must not inherit them.
        _, ancillary, _, _ = await own.recvmsg(
            1, socket.CMSG_SPACE(_NUMBER * count), socket.MSG_CMSG_CLOEXEC
        )
        numbers = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers.frombytes(data[: len(data) // _NUMBER * _NUMBER])
        found = [socket.socket(fileno=number) for number in numbers]
        return [trio.socket.from_stdlib_socket(each) for each in found]


def proxy_environment() -> dict[str, str]:
    """Return the variables by which programs find the proxy, and reach servers of their own without it."""
    url = f"http://127.0.0.1:{PROXY_PORT}"
    own = "localhost,127.0.0.1,::1"
    named = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": own}
    lower = {name.lower(): value for name, value in named.items()}
    return {**named, **lower, "NODE_USE_ENV_PROXY": "1"}


async def _accept(
    listener: trio.socket.SocketType, handler: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    """Serve the connections of one socket, a bounded number at once."""
    slots = trio.Semaphore(MAX_CONNECTIONS)

    async def serve(stream: trio.SocketStream) -> None:
        try:
            await handler(stream)
        finally:
            stream.socket.close()
            slots.release()

    async with trio.open_nursery() as nursery:
        while True:
            await slots.acquire()
            try:
                taken, _ = await listener.accept()
            except OSError:
                slots.release()
                await trio.sleep(RETRY_SECONDS)
                continue
            nursery.start_soon(serve, trio.SocketStream(taken))


def _answering(answerer: Answerer) -> Callable[[trio.SocketStream], Awaitable[None]]:
    async def answer(stream: trio.SocketStream) -> None:
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            asked: bytes | None = None
            with trio.move_on_after(ASK_SECONDS):
                asked = await _asked(stream)
            if asked is None:
                return
            said = await answerer(asked)
            with trio.move_on_after(ASK_SECONDS):
                await stream.send_all(said)

    return answer


async def _asked(stream: trio.SocketStream) -> bytes | None:
    data = bytearray()
    while chunk := await stream.receive_some(MAX_ASKED_BYTES):
        data += chunk
        if len(data) > MAX_ASKED_BYTES:
            return None
    return bytes(data)


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def sockets_of(
    command: Command, connector: Connector | None, settings: SandboxSettings
) -> SandboxSockets | None:
    """Return the sockets of a command; `None` when it wants none.

    Raises `ToolFailure` (`permission_denied`) when its call has no connector, and so may not reach hosts.
    """
    if not command.network and not command.answers:
        return None
    if len(command.answers) > MAX_ANSWERED:
        raise ValueError(f"a command has {MAX_ANSWERED} answered sockets at most")
    for name in command.answers:
        if not _NAME.fullmatch(name) or name in command.files:
            raise ValueError(f"{name!r} can't be an answered socket's name")
    if not command.network:
        return SandboxSockets(None, command.answers)
    if connector is None:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            "Nothing was run: this call may not reach hosts.",
            reason="no network handle",
        )
    return SandboxSockets(EgressProxy(connector, settings.network_bytes), command.answers)
