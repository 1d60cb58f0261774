"""What a turn does that asks no model for an answer: it makes calls that a program gave, or sums the conversation up."""

from __future__ import annotations

from ...runtime.events import MessageCompleted
from ...runtime.history import Call, Part, Text
from ...runtime.identity import new_id
from ...runtime.stream import StopReason, Usage
from ..conversation.conversation import Conversation

COMMAND = "/compact"
"""How chats and editors have it; what a person says behind it matters for the summary."""
NOTHING_YET = "There is nothing to sum up yet."


def given_calls(conversation: Conversation, input_id: str) -> tuple[Call, ...]:
    """Return the calls that the input brings, by ids that follow from it: a replay has the same."""
    options = conversation.options.turn
    taken, calls = conversation.call_ids, list[Call]()
    for number, given in enumerate(options.options.calls if options is not None else (), 1):
        call_id = f"call_{input_id.removeprefix('input_')}_{number}"
        while call_id in taken:  # the turn runs again
            call_id += "x"
        calls.append(Call(call_id, given.name, given.arguments))
    return tuple(calls)


def compacts(conversation: Conversation) -> bool:
    """Return whether the turn sums the conversation up, and does nothing else."""
    options = conversation.options.turn
    return options is not None and options.options.compact


def message_of_calls(turn_id: str, calls: tuple[Call, ...]) -> MessageCompleted:
    """Return what stands in the place of an answer that asks for these calls."""
    return _own(turn_id, calls, StopReason.TOOL_CALLS)


def message_of_summary(turn_id: str, rounds: int) -> MessageCompleted:
    """Return the answer of a turn that summed up: a history in which an input has none would be none for models."""
    oldest = "the oldest round" if rounds == 1 else f"the {rounds} oldest rounds"
    said = f"A summary stands in the place of {oldest} from now on."
    parts = (Text(said if rounds else NOTHING_YET),)
    return _own(turn_id, parts, StopReason.END, Usage(input_tokens=0, output_tokens=0))


def _own(
    turn_id: str, parts: tuple[Part, ...], stop: StopReason, usage: Usage | None = None
) -> MessageCompleted:
    return MessageCompleted(
        turn_id=turn_id,
        message_id=new_id("message"),
        parts=parts,
        provider="",
        model="",
        stop_reason=stop,
        usage=usage,
    )


def wish_of(conversation: Conversation) -> str:
    """Return what the person says behind the command."""
    said = "\n".join(each.text for each in conversation.asked)
    return said.removeprefix(COMMAND).strip()
