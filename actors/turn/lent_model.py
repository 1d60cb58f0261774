"""The model of a turn, lent to the calls of its tools: a server may ask it, where the operator and a person allow that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import trio

from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import BudgetError
from ...runtime.handles import ModelAnswer, ModelMessage, ModelQuestion
from ...runtime.history import Answer, Input, Item, Round, Text, text_of
from ...runtime.stream import StopReason
from ..model.answer import AnswerBuilder


class AnswersApart(Protocol):
    """What asks the models of the turn: its `ModelCaller`."""

    @property
    def target(self) -> ModelTarget:
        """The model that is asked now."""
        ...

    async def answer_apart(self, request: ModelRequest, call_id: str) -> AnswerBuilder:
        """See `ModelCaller`."""
        ...


class LentModel:
    """A `ModelHandle`: the turn's model, which answers one call at a time and gets no tools.

    Each answer is asked for as one of the turn's own: within its budget and all above it, again after what may
    pass, and on record. The turn waits for its calls meanwhile, so the session makes one model call at a time.
    """

    def __init__(self, caller: AnswersApart) -> None:
        self._caller = caller
        self._lock = trio.Lock()

    @property
    def name(self) -> str:
        """The model that would answer."""
        target = self._caller.target
        return f"{target.provider}/{target.model}"

    async def ask(self, call_id: str, question: ModelQuestion) -> ModelAnswer:
        """Return its answer; raise `ToolFailure` when the budget is used up, or the model fails."""
        async with self._lock:
            target = self._caller.target
            request = ModelRequest(
                model=target.model,
                provider=target.signer,
                system=question.system,
                rounds=tuple(_rounds(question.messages)),
                max_output_tokens=question.max_tokens,
                temperature=question.temperature,
                stop_sequences=question.stop_sequences,
            )
            try:
                answer = await self._caller.answer_apart(request, call_id)
            except BudgetError as error:
                raise ToolFailure(
                    ErrorType.EXECUTION_ERROR, f"The model was not asked: {error}"
                ) from error
        if answer.error is not None:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR, f"The model failed: {answer.error.message}"
            )
        is_cut = answer.done is not None and answer.done.stop_reason is StopReason.MAX_TOKENS
        return ModelAnswer(text=text_of(answer.parts()), model=target.model, is_cut=is_cut)


def _rounds(messages: Iterable[ModelMessage]) -> Iterator[Round]:
    """Return messages as rounds: what the user says, and what a model answered to it."""
    items: list[Item] = []
    for each in messages:
        if each.role == "user":
            items.append(Input(each.text))
            continue
        answer = Answer(parts=(Text(each.text),), dialect="", provider="", model="")
        yield Round([*items, answer])
        items = []
    yield Round(items)
