"""The sockets of one sandbox that the runtime answers: its proxy, and those of its command.

They are made inside, by the first program there (`entrance`), in the sandbox's own network and
files, and handed out before it becomes the program that was asked for. So nothing of them lies on
this machine's disk, no port of it is taken, and no process in the sandbox passes bytes on. The
program has no copy of what was handed out: it can connect, and nothing else.
"""

from __future__ import annotations

import array
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import trio

from ....config.sections import SandboxSettings
from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.processes import Answerer, Command
from ..box.recipe import FILES
from .entrance import START
from .proxy import Egress, WayOut

PROXY_PORT = 3128
"""On the sandbox's own loopback, where nobody else is; what proxies commonly listen on."""
MAX_CONNECTIONS = 32
"""Of one program at once, to one socket; more wait. npm opens some fifteen."""
MAX_ANSWERED = 8
"""Sockets of one command: git takes one."""
MAX_ASKED_BYTES = 64 * 1024
"""Of what a program sends to one that answers."""
ASK_SECONDS = 10.0
"""In which it must have sent that, and in which it must take the answer."""
RETRY_SECONDS = 0.1
"""Where no connection can be taken since the process has no descriptor left."""

PYTHON = os.path.join(sys.base_prefix, "bin", "python3")
"""Which the sandbox's own test runs there too."""

_NUMBER = array.array("i").itemsize
_ENTRANCE = "callboard.entrance"


class Entry(NamedTuple):
    """How a sandbox is begun: as what was asked for, or through its doors."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, bytes]
    descriptors: tuple[int, ...] = ()
    has_sockets: bool = False


class Doors:
    """What one sandbox is to have; closed by `close`, once it was entered.

    Args:
        egress: Serves the proxy, or `None` where there is none.
        answers: Who answers on a socket, by its name below `FILES`.
    """

    def __init__(self, egress: Egress | None, answers: Mapping[str, Answerer]) -> None:
        self.egress = egress
        self._answers = dict(answers)
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None

    @property
    def has_sockets(self) -> bool:
        """Whether there are sockets in the files of the sandbox."""
        return bool(self._answers)

    def open(self) -> int:
        """The descriptor that the sandbox is to inherit; ours until `entered`."""
        self._ours, self._theirs = socket.socketpair()
        return self._theirs.fileno()

    def start(self, argv: Sequence[str], environment: Mapping[str, str]) -> bytes:
        """What `entrance` reads: what to make, and how to go on as the program."""
        port = PROXY_PORT if self.egress is not None else 0
        proxy = proxy_environment() if self.egress is not None else {}
        variables = [f"{name}={value}" for name, value in {**proxy, **environment}.items()]
        words = [str(port), str(len(self._answers)), str(len(variables))]
        return "\0".join([*words, *self._answers, *variables, *argv]).encode()

    def entered(self) -> None:
        """The sandbox has inherited its end, or was not started."""
        if self._theirs is not None:
            self._theirs.close()

    async def serve(self) -> None:
        """Serves the sockets until it is cancelled; returns when there are none."""
        handlers: list[Callable[[trio.SocketStream], Awaitable[None]]] = []
        if self.egress is not None:
            handlers.append(self.egress.serve)
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
        """Gives up what is left. Idempotent."""
        for each in (self._ours, self._theirs):
            if each is not None:
                each.close()

    async def _handed_out(self, count: int) -> list[trio.socket.SocketType]:
        """The sockets, in the order in which they were asked for; none when it ended before."""
        assert self._ours is not None
        own = trio.socket.from_stdlib_socket(self._ours)
        # Not to be inherited by what another thread starts meanwhile.
        _, ancillary, _, _ = await own.recvmsg(
            1, socket.CMSG_SPACE(_NUMBER * count), socket.MSG_CMSG_CLOEXEC
        )
        numbers = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers.frombytes(data[: len(data) // _NUMBER * _NUMBER])
        found = [socket.socket(fileno=number) for number in numbers]
        return [trio.socket.from_stdlib_socket(each) for each in found]


class Asked(Protocol):
    """What a sandbox is to become."""

    @property
    def doors(self) -> Doors | None:
        """Its sockets, if there are any."""
        ...

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        ...

    @property
    def files(self) -> dict[str, bytes]:
        """Its files below `FILES`, by name."""
        ...


@contextmanager
def enter(asked: Asked) -> Generator[Entry]:
    """How a sandbox is begun; behind the block it has inherited the descriptors, or never will."""
    doors = asked.doors
    if doors is None:
        yield Entry(asked.argv, asked.environment, asked.files)
        return
    entrance = Path(__file__).with_name("entrance.py").read_bytes()
    own = {_ENTRANCE: entrance, START: doors.start(asked.argv, asked.environment)}
    number = doors.open()
    try:
        yield Entry(
            argv=(PYTHON, "-I", "-S", f"{FILES}/{_ENTRANCE}", str(number)),
            environment={},
            files={**asked.files, **own},
            descriptors=(number,),
            has_sockets=doors.has_sockets,
        )
    finally:
        doors.entered()


def proxy_environment() -> dict[str, str]:
    """The variables by which programs find the proxy; what runs inside is reached without it."""
    url = f"http://127.0.0.1:{PROXY_PORT}"
    own = "localhost,127.0.0.1,::1"
    named = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": own}
    lower = {name.lower(): value for name, value in named.items()}
    return {**named, **lower, "NODE_USE_ENV_PROXY": "1"}


async def _accept(
    listener: trio.socket.SocketType, handler: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    """Serves the connections of one socket, so many at once."""
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
    """What a program sent up to its end; `None` when that is too much."""
    data = bytearray()
    while chunk := await stream.receive_some(MAX_ASKED_BYTES):
        data += chunk
        if len(data) > MAX_ASKED_BYTES:
            return None
    return bytes(data)


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def doors_of(command: Command, way_out: WayOut | None, settings: SandboxSettings) -> Doors | None:
    """The doors of a command; `None` when it wants none.

    Args:
        command: What it wants.
        way_out: What makes the connections of its call, if it may have any.
        settings: The bounds.

    Raises:
        ToolFailure: `permission_denied` when its call may not reach hosts.
    """
    if not command.network and not command.answers:
        return None
    _check(command)
    if not command.network:
        return Doors(None, command.answers)
    if way_out is None:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            "Nothing was run: this call may not reach hosts.",
            reason="no network handle",
        )
    return Doors(Egress(way_out, settings.network_bytes), command.answers)


def _check(command: Command) -> None:
    if len(command.answers) > MAX_ANSWERED:
        raise ValueError(f"a command has {MAX_ANSWERED} answered sockets at most")
    for name in command.answers:
        if not _NAME.fullmatch(name) or name in command.files:
            raise ValueError(f"{name!r} can't be an answered socket's name")
