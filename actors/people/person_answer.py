"""What people and applications may say to a question, and how much of it is kept."""

from __future__ import annotations

import msgspec

from ...runtime.errors import ValidationError
from ...runtime.messages import ApprovalAnswer
from ...runtime.redaction import redact
from ...runtime.text import excerpt, without_surrogates

MAX_REASON_CHARACTERS = 4000
"""Of a reason: more than a page. What is longer is cut, and the answer counts all the same."""
MAX_NAME_CHARACTERS = 200
"""Of who answered: longer than any name."""
MAX_PATTERN_CHARACTERS = 4096
"""Of a pattern of paths: as long as a path can be."""
MAX_SHOWN_CHARACTERS = 100
"""Of what a handler said that is no answer."""

CUT = " […]"

_RESULT_BYTES = 16
"""Of the model's result, what a character of a reason may take: it stands there twice, and each
may be escaped to six bytes; the rest is for what stands around it."""


def checked_answer(answer: ApprovalAnswer) -> ApprovalAnswer:
    """The answer, if it is one that a client may give; raises `ValidationError` otherwise."""
    decision: object = answer.decision  # nothing checks it when an application makes the answer
    if isinstance(decision, str) and decision not in {"allow", "deny"}:
        said = excerpt(repr(decision[:MAX_SHOWN_CHARACTERS]), MAX_SHOWN_CHARACTERS)
        raise ValidationError(f"decision: {said} is neither allow nor deny", field="decision")
    if (problem := _odd(answer)) is not None:
        raise ValidationError(f"the answer is none: {problem}")
    return answer


def as_answer(answer: object) -> ApprovalAnswer:
    """What an application may say, as an answer; anything unknown is a denial."""
    match answer:
        case ApprovalAnswer(decision="allow" | "deny") if _odd(answer) is None:
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
    """The answer as it goes on record: its texts are cut where they are too long.

    Arguments of a denial say what the person would have had; what is no JSON object, or too large,
    is left out. Those of an `allow` are judged as a call's.
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


def without_memory(answer: ApprovalAnswer) -> ApprovalAnswer:
    """The answer, for this call alone."""
    return msgspec.structs.replace(answer, remember=None, pattern=None)


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
    """What it was, in short, without secrets, and without running the application's code."""
    if isinstance(said, ApprovalAnswer):
        return f"a decision of {_shown(said.decision)}"
    if type(said) not in {str, bytes, bool, type(None)}:
        return f"something of type {excerpt(type(said).__name__, MAX_SHOWN_CHARACTERS)}"
    # Cut first: the `repr` of a text would be as long as it is.
    text = repr(said[: 8 * MAX_SHOWN_CHARACTERS] if isinstance(said, str | bytes) else said)
    return excerpt(without_surrogates(redact(text)), MAX_SHOWN_CHARACTERS)


def _odd(answer: ApprovalAnswer) -> str | None:
    """What is of a wrong type in it: nothing checks that when it is made."""
    try:
        msgspec.convert(msgspec.structs.asdict(answer), ApprovalAnswer)
    except msgspec.ValidationError as error:
        return str(error)
    return None
