"""A client with a library of somebody else's, in a thread: it prompts, is cut off, and comes back."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from callboard.runtime.wire.sessions import Ticket
from callboard.runtime.wire.topics import Snapshot, Update
from support.gateway.witness import Witness

PAUSE_SECONDS = 0.05
"""Between two attempts to connect, and two looks at whether it is to end."""


class ForeignWitness:
    """Hears one session, and prompts it one input after the other, each with a key.

    Attributes:
        view: What it has seen of the session.
        said: Its prompts that were acknowledged.
        connections: How often it connected.
    """

    def __init__(self, url: str, token: str, session_id: str, said: dict[str, Ticket]) -> None:
        self.view = Witness()
        self.said = said
        self.connections = 0
        self._url = url
        self._token = token
        self._session_id = session_id
        self._number = 0
        self._last_id = 0
        self._asked = 0
        self._is_silent = threading.Event()
        self._ends = threading.Event()

    def fall_silent(self) -> None:
        """No prompt is begun any more."""
        self._is_silent.set()

    @property
    def waits(self) -> bool:
        """Whether a prompt has no answer yet."""
        return self._asked != 0

    def end(self) -> None:
        """`run` returns soon."""
        self._ends.set()

    def run(self) -> None:
        """In a thread of its own, until it is told to end."""
        headers = {"Authorization": f"Bearer {self._token}"}
        while not self._ends.is_set():
            try:
                with connect(self._url, additional_headers=headers, proxy=None) as socket:
                    self.connections += 1
                    self._serve(socket)
            except (OSError, EOFError, WebSocketException):
                time.sleep(PAUSE_SECONDS)

    def _serve(self, socket: ClientConnection) -> None:
        seen = self.view.stored[-1].seq if self.view.stored else 0
        self._send(socket, "initialize", protocol={"min": 1, "max": 1})
        self._send(socket, "session/subscribe", session_id=self._session_id, after_seq=seen)
        if self.waits:
            self._prompt(socket)  # again: with its key it is done once
        while not self._ends.is_set():
            if not self.waits and not self._is_silent.is_set():
                self._prompt(socket)
            try:
                self._hear(msgspec.json.decode(socket.recv(timeout=PAUSE_SECONDS)))
            except TimeoutError:
                continue

    def _text(self) -> str:
        return f"foreign {self._number}"

    def _prompt(self, socket: ClientConnection) -> None:
        key = f"{self._session_id} {self._number}"
        prompt = {"session_id": self._session_id, "content": self._text(), "idempotency_key": key}
        self._asked = self._send(socket, "session/prompt", **prompt)

    def _send(self, socket: ClientConnection, method: str, **params: Any) -> int:
        self._last_id += 1
        call = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        socket.send(msgspec.json.encode(call).decode())
        return self._last_id

    def _hear(self, told: dict[str, Any]) -> None:
        if (method := told.get("method")) is not None:
            params = msgspec.json.encode(told["params"])
            if method == "session/update":
                self.view.take(msgspec.json.decode(params, type=Update).known())
            elif method == "session/snapshot":
                self.view.take(msgspec.json.decode(params, type=Snapshot))
        elif told["id"] == self._asked:
            if "result" in told:
                self.said[self._text()] = msgspec.convert(told["result"], Ticket)
                self._number += 1
            else:
                assert told["error"]["data"]["type"] == "overloaded", told
                time.sleep(PAUSE_SECONDS)
            self._asked = 0
        else:
            assert "result" in told, told
