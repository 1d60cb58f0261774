"""Asking a person about a call: who is asked, how long they have, and what counts as an answer.

A channel or an `on_approval` function is the application's code: it may raise, hang or return
anything. Whatever is not clearly a yes is a no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import trio

from ...runtime.channel import ApprovalSaid, Channel
from ...runtime.definitions import SessionKind
from ...runtime.errors import CallboardError, ValidationError
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import ApprovalAnswer, ApprovalRequest
from ...runtime.redaction import redact, redacting_logger
from ...runtime.text import excerpt, without_surrogates
from ..people.lineage import Served
from ..people.user_questions import awaited
from .question import MAX_SHOWN_CHARACTERS, OpenQuestion

logger = redacting_logger(__name__)

Approver = Callable[[ApprovalRequest], Awaitable[ApprovalSaid]]
"""Asks a person, or answers for them: `allow`, `deny`, a bool, or a whole answer."""

LOOK_SECONDS = 1.0
"""Pause between two looks whether somebody has come to a channel; channels don't notify."""
MAX_REASON_CHARACTERS = 4000
"""Longest reason, more than a page. A longer one is cut, and the answer counts all the same."""
MAX_NAME_CHARACTERS = 200
"""Longest name of who answered."""

CUT = " […]"

_RESULT_BYTES = 16
"""Bytes of the model's result that each character of a reason may take: it stands there twice, and
may be escaped to six bytes; the rest is for the text around it."""

NOBODY = ApprovalAnswer(
    decision="deny",
    reason="there is nobody to ask: run in a terminal, choose --policy auto, or (in a program) "
    "pass on_approval or channel",
    answered_by="callboard",
)
NOBODY_FOR_WORKERS = msgspec.structs.replace(
    NOBODY, reason="a worker asks nobody: what needs a person is for the session that started it"
)
EXPIRED = ApprovalAnswer(
    decision="expired", reason="nobody answered in time", answered_by="callboard"
)
CRASHED = ApprovalAnswer(
    decision="deny", reason="the approval handler failed", answered_by="callboard"
)


class ApproverChannel(Channel):
    """The channel that `on_approval` makes: a function is asked about calls."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def approve(self, request: ApprovalRequest) -> ApprovalSaid:
        """See `Channel`."""
        return await self._approver(request)


async def ask_people(
    question: OpenQuestion, served: Served | None, nursery: trio.Nursery
) -> ApprovalAnswer | None:
    """Return what people answer, or that time is over; `None` when the question got its answer
    otherwise meanwhile.

    Without people, the answer is no; a deferred question waits on record instead. The channel is
    asked in a task of `nursery`, where it may outlast the question.
    """
    if served is None and not question.is_deferred:
        is_worker = question.place.session_kind is SessionKind.WORKER
        return NOBODY_FOR_WORKERS if is_worker else NOBODY
    answers: list[ApprovalAnswer] = []
    asking = trio.CancelScope()

    async def call(channel: Channel) -> None:
        with asking:
            answers.append(await _answer_of(channel, question))
            waiting.cancel(reason="answered")

    if served is not None:
        nursery.start_soon(call, served.channel, name=f"approver {question.approval_id}")
    try:
        with trio.move_on_after(question.patience_seconds) as patience:  # noqa: ASYNC912
            with trio.CancelScope() as waiting:  # noqa: ASYNC912
                with suppress(CallboardError):  # whoever asked gets it
                    await question.outcome.wait()
    finally:
        # Not waited for: a thread in `input()` can't be cancelled, and must hold up no answer.
        asking.cancel(reason="answered, or over")
    if answers:
        return answers[0]
    return EXPIRED if patience.cancelled_caught else None


async def _answer_of(channel: Channel, question: OpenQuestion) -> ApprovalAnswer:
    """Return a channel's answer; while nobody is there, the question waits on record."""
    try:
        while not channel.is_connected:  # noqa: ASYNC110  an application notifies nobody
            await trio.sleep(LOOK_SECONDS)
        return as_answer(await awaited(channel.approve(question.request())))
    except BaseException as crash:  # noqa: ASYNC103  the application's: the answer is no
        raise_stop(crash)
        tool = question.question.name
        logger.exception("the channel failed to ask about %s; the call is denied", tool)
        return CRASHED  # noqa: ASYNC104


# ── what counts as an answer ─────────────────────────────────────────────────────────────────────


def checked_answer(answer: ApprovalAnswer) -> ApprovalAnswer:
    """Return an answer that a client gave; raise `ValidationError` for what clients may not say."""
    decision: object = answer.decision  # nothing checks it when an application makes the answer
    if isinstance(decision, str) and decision not in {"allow", "deny"}:
        said = excerpt(repr(decision[:MAX_SHOWN_CHARACTERS]), MAX_SHOWN_CHARACTERS)
        raise ValidationError(f"decision: {said} is neither allow nor deny", field="decision")
    if (problem := _type_problem(answer)) is not None:
        raise ValidationError(f"the answer has a wrong type: {problem}")
    return answer


def as_answer(answer: object) -> ApprovalAnswer:
    """Return what an application said as an answer; anything unknown is a denial."""
    match answer:
        case ApprovalAnswer(decision="allow" | "deny") if _type_problem(answer) is None:
            return answer
        case True | "allow":
            return ApprovalAnswer(decision="allow")
        case False | "deny":
            return ApprovalAnswer(decision="deny")
        case _:
            return ApprovalAnswer(
                decision="deny",
                reason=f"the approval handler answered {_shown(answer)}, not allow or deny",
                answered_by="callboard",
            )


def bounded(
    answer: ApprovalAnswer, *, max_result_bytes: int, max_arguments_bytes: int
) -> ApprovalAnswer:
    """Return the answer as it goes on record, with its texts cut to bounds.

    The arguments of a denial say what the person would have allowed; they are dropped when they
    are too large or not a JSON object. Those of an `allow` are validated as a call's are.
    """
    most = min(MAX_REASON_CHARACTERS, max_result_bytes // _RESULT_BYTES)
    arguments = answer.arguments
    if answer.decision != "allow" and not _is_object(arguments, max_arguments_bytes):
        arguments = None
    return msgspec.structs.replace(
        answer,
        reason=_cut(answer.reason, most),
        answered_by=_cut(answer.answered_by, MAX_NAME_CHARACTERS) or "application",
        arguments=arguments,
    )


def _cut(text: str, most: int) -> str:
    text = without_surrogates(text[: most + 1])
    return text if len(text) <= most else (text[: max(most - len(CUT), 0)] + CUT)[:most]


def _is_object(arguments: str | None, max_bytes: int) -> bool:
    if arguments is None or len(arguments) > max_bytes:
        return False
    try:
        encoded = arguments.encode()
        msgspec.json.decode(encoded, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return len(encoded) <= max_bytes


def _shown(said: object) -> str:
    """Describe a value in short, without secrets and without running the application's code."""
    if isinstance(said, ApprovalAnswer):
        return f"a decision of {_shown(said.decision)}"
    if type(said) not in {str, bytes, bool, type(None)}:
        return f"something of type {excerpt(type(said).__name__, MAX_SHOWN_CHARACTERS)}"
    # Cut first: the `repr` of a text would be as long as it is.
    text = repr(said[: 8 * MAX_SHOWN_CHARACTERS] if isinstance(said, str | bytes) else said)
    return excerpt(without_surrogates(redact(text)), MAX_SHOWN_CHARACTERS)


def _type_problem(answer: ApprovalAnswer) -> str | None:
    """Return which field has a wrong type: nothing checks that when a struct is made."""
    try:
        msgspec.convert(msgspec.structs.asdict(answer), ApprovalAnswer)
    except msgspec.ValidationError as error:
        return str(error)
    return None
