"""`POST /hooks/NAME`: a signed delivery of another system becomes an input of a session, once."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from time import time as wall_clock

import msgspec
import trio

from ...embedding.runtime import host_of, wish_of
from ...embedding.unattended.once import MadeInput, OutsideInput, found, is_open, submit_once
from ...runtime.definitions import Attachment
from ...runtime.errors import AuthError, SessionElsewhere, StorageError
from ...runtime.hooks.hook import MAX_BODY_BYTES, SECRET_PLACE, Hook, SignatureForm, key_name
from ...runtime.hooks.signatures import Delivery, checked, form_of
from ...runtime.identity import RequestKey, TraceContext
from ...runtime.redaction import redacting_logger
from ..door.exchange import Exchange, Route
from ..door.http import JSON, BadHead, HttpAnswer
from ..shared.state import DaemonState
from ..shared.workspaces import chosen_workspace
from .passed_on import AGAIN_SECONDS, PATIENCE_SECONDS, pass_on

logger = redacting_logger(__name__)

PATH = "/hooks/"
MINUTE = 60.0
SAME_BODY_SECONDS = 3600
"""For which a delivery that nobody named is the same as one with the same body: senders try again for minutes."""
LARGE_BODY = 64 * 1024
"""Bytes; the signature of a larger one is worked out in a thread, so that nobody waits for it."""

DELIVERY, UNNAMED, SESSION = "delivery", "body", "session"
"""Methods of the names on record; no method of the protocol is named so."""

_NO_SECRET = secrets.token_hex()
"""Of hooks that there are not: a secret that nobody has."""


class Hooks:
    """The hooks of a daemon.

    Args:
        daemon: Where their inputs go.
    """

    def __init__(self, daemon: DaemonState) -> None:
        self._daemon = daemon
        self._let_in: dict[str, deque[float]] = {}
        self._locks: dict[str, trio.Lock] = {}

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by path."""
        return {PATH: Route(answer=self._answer, methods=("POST",), token="none")}

    async def _answer(self, exchange: Exchange) -> HttpAnswer:
        if self._daemon.is_stopping:
            raise BadHead(503, "the server is stopping", (("retry-after", "10"),))
        headers = dict(reversed(exchange.head.headers))  # the first one of a name counts
        form = form_of(headers)
        body = b"" if form is None else await exchange.body(MAX_BODY_BYTES, media_type=None)
        hook = host_of(self._daemon.runtime).settings.hooks.get(exchange.rest)
        delivery = None if form is None else await self._checked(hook, form, headers, body)
        if hook is None or delivery is None:
            raise BadHead(401, "there is no such hook, or this is not signed with its secret")
        if form == "github" and delivery.event == "ping":  # asks whether the hook is right
            return HttpAnswer(200, "pong")
        attachments = _attachments(hook, headers, body)
        made = await self._made_anywhere(exchange, hook, delivery, attachments, body)
        if isinstance(made, HttpAnswer):
            return made
        again = "" if made.is_new else ", again"
        logger.info("hook %s: %s in %s%s", hook.name, made.input_id, made.session_id, again)
        answer = {"session_id": made.session_id, "input_id": made.input_id}
        return HttpAnswer(202, msgspec.json.encode(answer), JSON)

    async def _made_anywhere(
        self,
        exchange: Exchange,
        hook: Hook,
        delivery: Delivery,
        attachments: tuple[Attachment, ...],
        body: bytes,
    ) -> MadeInput | HttpAnswer:
        """Put an input on record here, or at the node that owns its session: then return what that answers."""
        until = trio.current_time() + PATIENCE_SECONDS
        while True:
            try:
                async with self._locks.setdefault(hook.name, trio.Lock()):
                    return await self._made(hook, delivery, attachments, exchange.head.trace)
            except SessionElsewhere as error:
                elsewhere = error
            self._let_in[hook.name].pop()  # it counts where it is taken
            http = host_of(self._daemon.runtime).http
            if (answer := await pass_on(http, exchange, body, elsewhere)) is not None:
                return answer
            if trio.current_time() > until:
                raise BadHead(503, f"{elsewhere} It does not answer.", (("retry-after", "5"),))
            await trio.sleep(AGAIN_SECONDS)  # it may be claimed by another, or by this one

    async def _checked(
        self, hook: Hook | None, form: SignatureForm, headers: Mapping[str, str], body: bytes
    ) -> Delivery | None:
        """Return the delivery if it may come in; the work depends on the request alone."""
        secret = await self._secret("" if hook is None else hook.name)
        check = partial(checked, form, secret or _NO_SECRET, headers, body, wall_clock())
        is_small = len(body) <= LARGE_BODY
        delivery = check() if is_small else await trio.to_thread.run_sync(check)
        if hook is None or not secret or hook.paused or hook.signature != form:
            return None
        return delivery

    async def _secret(self, name: str) -> str | None:
        stored = wish_of(self._daemon.runtime).stored
        try:
            secret = await trio.to_thread.run_sync(stored, key_name(name), SECRET_PLACE)
        except (AuthError, StorageError) as error:
            logger.error("the secret of the hook %s can't be read: %s", name, error)
            return None
        return None if secret is None else secret.reveal()

    async def _made(
        self,
        hook: Hook,
        delivery: Delivery,
        attachments: tuple[Attachment, ...],
        trace: TraceContext | None,
    ) -> MadeInput:
        """Put the input of a delivery on record, unless it is there."""
        runtime = self._daemon.runtime
        names = self._names(hook, delivery)
        for name in names:
            made = await found(runtime, name)
            if made is not None and (delivery.is_named or _is_recent(made)):
                return made
        self._check_rate(hook)
        workspace = partial(chosen_workspace, self._daemon, hook.workspace)
        session_id = None
        if hook.session == "same":
            session_id = await self._same_session(hook, workspace)
        given = OutsideInput(
            request=names[0],
            text=hook.text(delivery.event, delivery.name),
            attachments=attachments,
            agent=hook.agent,
            title=f"{hook.name} {delivery.event}".strip(),
            budget=hook.budget,
            unattended=hook.unattended,
            is_untrusted=True,
            trace=trace,
        )
        return await submit_once(runtime, given, session_id=session_id, workspace=workspace)

    def _names(self, hook: Hook, delivery: Delivery) -> list[RequestKey]:
        """Return the names on record under which a delivery may be; it gets the first one."""
        sender = key_name(hook.name)
        if delivery.is_named:
            return [RequestKey(sender, DELIVERY, delivery.identity, "")]
        span = int(wall_clock() // SAME_BODY_SECONDS)
        keys = (f"{delivery.identity}:{each}" for each in (span, span - 1))
        return [RequestKey(sender, UNNAMED, key, "") for key in keys]

    async def _same_session(
        self, hook: Hook, workspace: Callable[[], AbstractAsyncContextManager[Path]]
    ) -> str:
        """Return the session that all deliveries of a hook have; begin one, or another if that is gone.

        It is found by the name that it was begun with, and once that is dropped by the last delivery.
        """
        runtime, sender, number = self._daemon.runtime, key_name(hook.name), 1
        while True:
            name = RequestKey(sender, SESSION, str(number), "")
            begun = await runtime.store.request(name)
            if begun is None:
                break
            if await is_open(runtime, begun.session_id, hook.agent):
                return begun.session_id
            number += 1
        for last in await runtime.store.named_inputs((sender,), 1):
            if await is_open(runtime, last.session_id, hook.agent):
                return last.session_id
        async with workspace() as folder:
            session = await runtime.create_session(
                agent=hook.agent, workspace=folder, title=hook.name, request=name
            )
        return session.session_id

    def _check_rate(self, hook: Hook) -> None:
        """Count a delivery; raise `BadHead` when the hook had too many within a minute."""
        now = trio.current_time()
        times = self._let_in.setdefault(hook.name, deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= hook.max_per_minute:
            wait = math.ceil(times[0] + MINUTE - now)
            problem = f"more than {hook.max_per_minute} deliveries within a minute"
            raise BadHead(429, problem, (("retry-after", str(wait)),))
        times.append(now)


def _is_recent(made: MadeInput) -> bool:
    return wall_clock() - (made.at_ms or 0) / 1000 < SAME_BODY_SECONDS


def _attachments(hook: Hook, headers: Mapping[str, str], body: bytes) -> tuple[Attachment, ...]:
    """Return the body as what stands beside the prompt; raise `BadHead` if it is no text."""
    if not body:
        return ()
    try:
        body.decode()
    except UnicodeDecodeError:
        raise BadHead(415, "the body of a delivery is text in UTF-8, like JSON") from None
    is_json = headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
    kind, ending = (JSON, "json") if is_json else ("text/plain", "txt")
    return (Attachment(kind, body, name=f"{hook.name}.{ending}"),)
