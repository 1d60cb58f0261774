"""Notices: a webhook gets a POST for each question that begins to wait for a person.

A notice names question, session and tool, but has no arguments and no text of a model, which may hold
secrets. Nothing waits for the delivery: the question is on record anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec
import trio

from ...config.sections import NotifySettings, is_address
from ...embedding.runtime import Runtime, host_of
from ...runtime.definitions import Tier
from ...runtime.errors import CallboardError
from ...runtime.events import ApprovalAsked, QuestionAsked, Stored
from ...runtime.http.address_guard import (
    HERE,
    AddressGuard,
    AddressRefused,
    Endpoint,
)
from ...runtime.http.client import open_http_client
from ...runtime.redaction import redacting_logger
from ...runtime.text import normalize_host

logger = redacting_logger(__name__)

MAX_WAITING = 100
"""Notices that wait to be posted; then the oldest are dropped."""
ATTEMPTS = 3
POST_SECONDS = 10.0
"""For one attempt."""
AGAIN_SECONDS = 2.0
"""Between attempts."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="question_waits"):
    """The JSON of a notice.

    Attributes:
        kind: `approval` of a call, or `question` of a model.
        question_id: Answered by `callboard approve`, `callboard deny` or `callboard attach`.
        session_id, tool, tier: The call; without a tier when a model asks.
        expires_at_ms: When the question expires, in Unix milliseconds.
        text: All of it in one line, which chat services show.
    """

    kind: str
    question_id: str
    session_id: str
    tool: str
    tier: Tier | None
    expires_at_ms: int
    text: str


def notice_of(stored: Stored) -> Notice | None:
    """Return the notice of an event; `None` unless the event is a question to a person."""
    match stored.event:
        case ApprovalAsked(same_as="") as asked:
            return Notice(
                kind="approval",
                question_id=asked.approval_id,
                session_id=stored.session_id,
                tool=asked.name,
                tier=asked.tier,
                expires_at_ms=asked.expires_at_ms,
                text=f"callboard asks: may {asked.name} run in {stored.session_id}? "
                f"callboard approve {asked.approval_id}",
            )
        case QuestionAsked() as asked:
            return Notice(
                kind="question",
                question_id=asked.question_id,
                session_id=stored.session_id,
                tool="ask_user",
                tier=None,
                expires_at_ms=asked.expires_at_ms,
                text=f"callboard: the model has a question in {stored.session_id}. "
                f"callboard attach {stored.session_id}",
            )
        case _:
            return None


class Notices:
    """Posts notices of a runtime, by the settings at that moment."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: deque[Notice] = deque(maxlen=MAX_WAITING)
        self._wake = trio.Event()

    async def run(self) -> None:
        """Post notices until cancelled."""
        forget = host_of(self._runtime).inboxes.watch(self._take)
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                while self._waiting:
                    await self._post(self._waiting.popleft(), self._settings)
        finally:
            forget()

    @property
    def _settings(self) -> NotifySettings:
        return host_of(self._runtime).settings.notify

    def _take(self, events: tuple[Stored, ...]) -> None:
        if self._settings.webhook is None:
            return
        for stored in events:
            if (notice := notice_of(stored)) is not None:
                self._waiting.append(notice)
                self._wake.set()

    async def _post(self, notice: Notice, settings: NotifySettings) -> None:
        url, endpoint = settings.webhook, settings.endpoint
        if url is None or endpoint is None:
            return
        host = endpoint[0]
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await trio.sleep(AGAIN_SECONDS)
            try:
                status = await self._posted(url, endpoint, msgspec.json.encode(notice))
            except AddressRefused:
                problem = (
                    "it leads to an address that is not public; name its host and port in "
                    "[network] allow if that is meant"
                )
                break
            except (CallboardError, trio.TooSlowError) as error:
                problem = type(error).__name__
                continue
            if 200 <= status < 300:
                return
            problem = f"status {status}"
            if status < 500 and status != 429:
                break  # another attempt would get the same answer
        logger.warning(
            "the webhook at %s was not told of %s: %s", host, notice.question_id, problem
        )

    async def _posted(self, url: str, endpoint: tuple[str, int], body: bytes) -> int:
        """Post to this endpoint and return the status; a redirect is not followed."""
        guard = webhook_guard(endpoint, host_of(self._runtime).settings.network.endpoints)
        headers = {"content-type": "application/json", "user-agent": "callboard"}
        with trio.fail_after(POST_SECONDS):
            given = host_of(self._runtime).http.given
            async with open_http_client(
                connect=guard.connect, given=given, check=guard.check
            ) as http:
                async with http.request("POST", url, headers, body) as answer:
                    return answer.status


def webhook_guard(endpoint: Endpoint, listed: Iterable[Endpoint]) -> AddressGuard:
    """Return a guard that allows connections to the webhook's endpoint alone.

    An IP address in the URL, or `localhost`, is allowed as written. Another host name could resolve to a
    private address later; then it must be listed in `[network] allow`.
    """
    host, port = endpoint
    own = [(normalize_host(host), port)] if is_address(host) or host == HERE else []
    return AddressGuard([*listed, *own], ports={port})
