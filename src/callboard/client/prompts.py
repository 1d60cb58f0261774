"""What a client asks and waits for: requests, prompts, answers, the events of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Unpack, overload

import msgspec

from ..runtime.budget import Budget
from ..runtime.definitions import InputMode
from ..runtime.errors import ProviderError, ShortTracebacks
from ..runtime.events import Stored
from ..runtime.history import Attachment
from ..runtime.identity import TraceContext, new_id
from ..runtime.turn_options import PromptKeywords, TurnOptions, options_of_keywords
from ..runtime.wire import sessions as wire
from .subscriptions import AnswerOf, ClientSubscriptions, RemoteEvents

Result = TypeVar("Result")
Value = TypeVar("Value")


class ClientPrompts:
    """The half of `Client` that other requests are made of."""

    def __init__(self, subscriptions: ClientSubscriptions) -> None:
        self._subscriptions = subscriptions
        self._link = subscriptions.link

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        result: type[Result],
        *,
        key: str | None = None,
    ) -> Result:
        """Call any method of the protocol; the others are short forms of this.

        Args:
            method: Its name.
            params: What it takes.
            result: What it gives.
            key: A text for this request and no other. The daemon does the request once, however often
                it comes, so after a broken connection it is sent again over the next one.

        Raises:
            CallboardError: What the daemon says is wrong, by its type.
            NetworkError: The connection broke before the answer came, and there was no key; or the
                daemon is away for minutes.
            OverloadedError: The daemon is stopping (the kind `stopping`), and there was no key, or it
                did not come back.
            DeadlineError: The daemon is there, but has not answered for a minute, or a quarter of an
                hour for methods that may take long, such as `store/backup`.
        """
        with ShortTracebacks():
            return await self._link.request(method, params, result, key=key)

    def events(
        self, session_id: str, *, after_seq: int | None = None, epoch: str | None = None
    ) -> RemoteEvents:
        """Subscribe to a session, after an event or from now on: enter it, then iterate.

        It continues by itself over broken connections and restarts of the daemon, and waits while it
        is away. To continue after a `seq` that was kept, pass its `epoch` too: when the store is
        another one by then, such as a restored backup, that is a `ConflictError` of the kind `seq`.
        Events that only a later version knows are skipped.

        Example:
            async with client.events(session.session_id) as events:
                await client.prompt(session.session_id, "What time is it in Tokyo?")
                async for event in events:
                    print(event)
        """
        return RemoteEvents(self._subscriptions, session_id, after_seq, epoch)

    async def prompt(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        budget: Budget | None = None,
        mode: InputMode | Literal["queue", "steer", "interrupt"] = InputMode.QUEUE,
        options: TurnOptions | None = None,
        is_untrusted: bool = False,
        trace: TraceContext | None = None,
        key: str | None = None,
    ) -> wire.Ticket:
        """Prompt a session; the input is on record, once, when this returns.

        It waits while the daemon is away, or restarts, for two minutes at most. A prompt that was given
        up may be sent again with the same `key`, and is still on record once.

        For `mode` see `Session.submit`. `options` replace those of the agent for its turn; `ask` takes them by
        keyword. With `is_untrusted`, strangers may have written the text. `trace` is where the program stands
        in a trace of its own.
        """
        params = wire.Prompt(
            session_id=session_id,
            content=text,
            attachments=tuple(attachments),
            budget=budget,
            mode=InputMode(mode),
            options=options,
            is_untrusted=is_untrusted,
            trace=trace,
        )
        key = key or new_id("request")
        return await self.request("session/prompt", params, wire.Ticket, key=key)

    @overload
    async def ask(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: None = None,
        **options: Unpack[PromptKeywords],
    ) -> str: ...

    @overload
    async def ask(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: type[Value],
        **options: Unpack[PromptKeywords],
    ) -> Value: ...

    @overload
    async def ask(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: Mapping[str, Any],
        **options: Unpack[PromptKeywords],
    ) -> dict[str, Any]: ...

    async def ask(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: Any = None,
        **options: Unpack[PromptKeywords],
    ) -> Any:
        """Prompt and return the final answer, waiting while the daemon is away; see `Session.run`.

        Cancelling it leaves the turn to go on: `cancel` ends that. A call that must be allowed
        waits for whoever answers. The daemon checks a structured `answer` against the JSON Schema of its type,
        for which it needs the extra `schemas`.

        Raises:
            ConflictError: This client is subscribed to the session already: read the answer there.
            CallboardError: The turn was not answered; the error's type says why.
        """
        form = _Form(answer)
        async with self.events(session_id) as events:
            wanted = options_of_keywords(options, form.schema)
            ticket = await self.prompt(
                session_id,
                text,
                attachments,
                budget=options.get("budget"),
                options=wanted,
                is_untrusted=options.get("is_untrusted", False),
                trace=options.get("trace"),
            )
            told = AnswerOf(ticket.input_id)
            async for event in events:
                if isinstance(event, Stored):
                    told.see(event)
                if told.is_over:
                    break
        return form.read(told.result())


class _Form:
    """The form of an answer: the daemon gets a JSON Schema, the program its type, or a text without any.

    Raises `ValidationError` when JSON can't carry the type.

    Attributes:
        schema: What the daemon gets.
    """

    def __init__(self, answer: Any) -> None:
        self.schema: dict[str, Any] | None = None
        self._read: Any = None
        if isinstance(answer, Mapping):
            self.schema, self._read = dict(answer), msgspec.json.decode
        elif answer is not None:
            from ..tools.schema.answers import TypedAnswer  # here: most prompts have none

            typed = TypedAnswer(answer)
            self.schema, self._read = typed.schema, typed.value

    def read(self, text: str) -> Any:
        """Return the answer; raise `ProviderError` for one that only the schema takes, not the type."""
        if self._read is None:
            return text
        try:
            return self._read(text)
        except ValueError as error:
            raise ProviderError(f"the answer fits the schema, but not the type: {error}") from error
