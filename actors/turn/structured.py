"""The answer of a turn in a form that is given for it: asked for, read, and asked for again.

A provider that binds its text to a JSON Schema is asked to. For the others, and when its text is wrong all
the same, the model gets one more tool, whose arguments are the answer. What comes is read in both ways, whichever was asked for: the model may
have changed since. Without any call, the text is the answer; a call of the tool alone is the answer, too.
Beside other calls it is refused, since it was made without their results.

An answer of another form is on record with what is wrong with it, and the model is asked again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ...providers.provider import ModelRequest, ModelTarget, ToolChoice
from ...runtime.definitions import (
    CallStatus,
    Effect,
    ErrorType,
    ThinkingEffort,
    Tier,
    ToolDefinition,
)
from ...runtime.errors import ValidationError
from ...runtime.events import AnswerRejected, CallFinished, MessageCompleted
from ...runtime.history import Call, text_of
from ...runtime.kernel.delivery import AnswerReader
from ...runtime.redaction import redacting_logger
from ...runtime.stream import StopReason
from ...runtime.text import excerpt
from ...tools.schema.answers import SchemaAnswer, schema_in
from ...tools.schema.validation import WrongArguments
from ..calls.outcome import CallOutcome, crash_text, failure_outcome

logger = redacting_logger(__name__)

MAX_REJECTED = 2
"""How often a wrong answer is asked for again: what a model gets wrong three times it does not know."""
MAX_REFUSAL = 500
"""Characters of the model's own words where it refuses."""

TOOL = "final_answer"

_DESCRIPTION = (
    "Gives your final answer, which is read from these arguments: words beside it are not read. Call it alone, "
    "once, when all else is done."
)
_ALONE = "Not taken: it was called beside other tools, without their results. When they are done, call it alone."
_ONE = "Not taken: the answer is in the first call."


class Judged(NamedTuple):
    """What came of an answer.

    Attributes:
        answer: Its canonical JSON; empty when it is not taken.
        rejected: What is wrong with it, if something is.
        finished: The results of the calls that gave it.
    """

    answer: str = ""
    rejected: AnswerRejected | None = None
    finished: tuple[CallFinished, ...] = ()


class AnswerForm:
    """The form of one turn's answer.

    Raises `ValidationError` for a schema that can't be one, or a tool with the name of its own.

    Args:
        schema: The text of the JSON Schema.
        answer_type: Reads the form for whoever waits; `None` reads what fits the schema.
        tools: What else the model may ask for.
    """

    def __init__(
        self,
        schema: str,
        answer_type: AnswerReader | None,
        tools: tuple[ToolDefinition, ...],
    ) -> None:
        self._schema = schema_in(schema)
        self._reader: AnswerReader = answer_type or SchemaAnswer(self._schema)
        if any(tool.name == TOOL for tool in tools):
            raise ValidationError(
                f"a tool is named {TOOL}, and so is the one that takes an answer in a form: give yours "
                "another name, or leave it out of the turn's tools"
            )
        self._tool = ToolDefinition(
            name=TOOL,
            description=_DESCRIPTION,
            parameters=self._schema,
            tier=Tier.READ_ONLY,
            effect=Effect.READ,
        )
        self._tools = (*tools, self._tool)

    def asked_for(self, request: ModelRequest, target: ModelTarget, rejected: int) -> ModelRequest:
        """Return the request for an answer of this form, after so many rejected ones.

        One that must call a tool of the client is as it is: the answer comes behind that.
        """
        if request.forced_tool is not None or request.tool_choice is not ToolChoice.AUTO:
            return request
        is_again = rejected > 0
        bound = msgspec.structs.replace(request, answer_schema=self._schema)
        if target.endpoint is None:
            return bound
        if not is_again and target.endpoint.dialect.binds_answer(bound):
            return bound
        # Some providers don't let a model think that must call a tool.
        thinks = request.thinking not in {None, ThinkingEffort.OFF}
        return msgspec.structs.replace(
            request,
            tools=self._tools,
            tool_choice=ToolChoice.AUTO if thinks else ToolChoice.REQUIRED,
            forced_tool=TOOL if is_again or len(self._tools) == 1 else None,
        )

    def given(self, calls: tuple[Call, ...]) -> tuple[Call, ...]:
        """Return the calls that give the answer."""
        return tuple(call for call in calls if call.name == TOOL)

    def judged(self, message: MessageCompleted, text: str, calls: tuple[Call, ...]) -> Judged:
        """Return what came of an answer; `calls` are those that give it, without any its text does."""
        try:
            _, answer = self._reader.read(calls[0].arguments if calls else text)
        except WrongArguments as wrong:
            problem = wrong.problem
        except Exception as crash:  # the program's own type
            logger.warning("the type of the answer crashed", exc_info=crash)
            problem = f"its check failed: {crash_text(crash)}"
        else:
            return Judged(answer, None, self._finished(message, calls, None))
        rejected = AnswerRejected(
            turn_id=message.turn_id,
            message_id=message.message_id,
            problem=problem,
            call_id=calls[0].call_id if calls else "",
        )
        return Judged("", rejected, self._finished(message, calls, problem))

    def given_up(self, rejected: AnswerRejected, before: int) -> str:
        """Return why no further answer is asked for, after so many rejected ones; empty if one is."""
        if before < MAX_REJECTED:
            return ""
        return (
            f"The model gave no answer of the form that was asked for, {before + 1} times. The last one: "
            f"{rejected.problem}."
        )

    def why_none(self, message: MessageCompleted) -> str:
        """Return why an answer that was cut, or refused, is none."""
        if message.stop_reason == StopReason.REFUSED:
            return f"The model refused to answer: {excerpt(text_of(message.parts), MAX_REFUSAL)}"
        return "The answer was cut at the limit of its tokens, and has no form. Raise max_output_tokens."

    def beside_others(
        self, message: MessageCompleted, calls: tuple[Call, ...]
    ) -> tuple[CallFinished, ...]:
        """Return the results of calls that gave an answer beside others."""
        refused = failure_outcome(ErrorType.EXECUTION_ERROR, _ALONE)
        return tuple(_result(message, call, refused) for call in calls)

    def _finished(
        self, message: MessageCompleted, calls: tuple[Call, ...], problem: str | None
    ) -> tuple[CallFinished, ...]:
        if not calls:
            return ()
        if problem is None:
            text = '{"status":"success","result":"The answer is taken."}'
            first = CallOutcome(status=CallStatus.SUCCESS, content=text)
        else:
            text = f"{TOOL}: {problem}. Correct it and call again."
            first = failure_outcome(ErrorType.VALIDATION_ERROR, text, schema=self._schema)
        again = failure_outcome(ErrorType.EXECUTION_ERROR, _ONE)
        outcomes = [first, *[again] * (len(calls) - 1)]
        return tuple(_result(message, *each) for each in zip(calls, outcomes, strict=True))


def _result(message: MessageCompleted, call: Call, outcome: CallOutcome) -> CallFinished:
    return CallFinished(
        turn_id=message.turn_id,
        call_id=call.call_id,
        name=call.name,
        status=outcome.status,
        result=outcome.content,
        display=outcome.display,
    )
