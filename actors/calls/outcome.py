"""How a call ended: the JSON text for the model, whatever the tool returned or raised.

There is always an outcome, and it is always valid JSON of bounded size. A result that is too large
keeps its shape where it can: the long texts in it are cut in their middle, and the whole is kept as
an artifact that the model can read on with `read_file`.

A model may call a tool wrongly in three answers of a turn; then the turn goes on without the tool.
What counts are answers, not calls: a mistake that stands three times in one answer is one attempt,
and a right call in between gives none back. Each such result says how many attempts are left, which
is how the count survives a restart.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate, takewhile
from typing import Any

import msgspec
import trio

from ...runtime.definitions import (
    Artifact,
    Attachment,
    CallStatus,
    Effect,
    ErrorType,
    Tier,
    ToolDefinition,
    ToolFailure,
    ToolResult,
)
from ...runtime.errors import CallboardError, ValidationError
from ...runtime.event_types.calls import CalledServer, CallFinished, ToolGivenUp
from ...runtime.history import Call, checked_attachments
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AppendEvents, ApprovalAnswer, BrokenOff, CallPlace, JournalMessage
from ...runtime.redaction import redact, redacting_logger
from ...runtime.text import json_size
from ...tools.schema.validation import TRY_AGAIN

logger = redacting_logger(__name__)

MAX_ATTEMPTS = 3
"""The first and two retries (ADR-0004): enough for a slip, too few for a circle."""
MIN_TEXT_BYTES = 128
"""The least JSON that a cut text keeps and still says something, the note in its middle included."""
MAX_KEPT_OUTPUT_BYTES = 18 * 1024 * 1024
"""The largest whole that is kept: escaped in its event, beside a result of the largest size and its files, it is
what the store takes."""
MAX_DISPLAY_CHARS = 4000
"""Kept of what a tool says to people: it is a line or a few."""
MAX_ARTIFACT_CHARS = 512 * 1024
"""Kept of a tool's own artifacts, the first of them: thousands of paths."""
_ARTIFACT_CHARS = 64
"""What stands in an event around the two texts of an artifact."""
_NOTE_BYTES = 80
"""The note in the middle of a cut text, with the largest numbers that there are."""
_LEFT = "attempts_left"
_LOST = f"The rest is not kept, since it is more than {MAX_KEPT_OUTPUT_BYTES} bytes."


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a call ended.

    Attributes:
        content: The JSON text for the model.
        full_output: The whole output as JSON text, when `content` is a part of it.
        failure: What a failure says to the model, as JSON values; `None` for a success.
        attempts_left: How often the model may still try, when its arguments were wrong.
        attachments: Images and files beside it.
    """

    status: CallStatus
    content: str
    display: str = ""
    artifacts: tuple[Artifact, ...] = ()
    full_output: str | None = None
    failure: dict[str, Any] | None = None
    attempts_left: int | None = None
    attachments: tuple[Attachment, ...] = ()


def success(result: ToolResult, call: Call, max_bytes: int) -> CallOutcome:
    """Return the outcome of a tool that returned; an oversized output is cut and kept."""
    # A field of another type would be stored and then make the session unreadable.
    if type(result.display) is not str or result.artifacts != () or result.both_ends != ():
        result = msgspec.convert(msgspec.structs.asdict(result), ToolResult)
    if result.attachments:
        result = with_files(call.name, result)
    output = msgspec.json.encode(result.output)
    if len(output) <= max_bytes:
        return CallOutcome(
            status=CallStatus.SUCCESS,
            content='{"status":"success","result":' + output.decode() + "}",
            display=result.display[:MAX_DISPLAY_CHARS],
            artifacts=result.artifacts and _first(result.artifacts),
            attachments=result.attachments,
        )
    cut = cut_output(result, output, call.call_id, max_bytes)
    kept = _kept(call, len(output))
    return CallOutcome(
        status=CallStatus.SUCCESS,
        content=msgspec.json.encode(cut).decode(),
        display=result.display[:MAX_DISPLAY_CHARS],
        artifacts=(*_first(result.artifacts), *kept),
        full_output=output.decode() if kept else None,
        attachments=result.attachments,
    )


def _first(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    sizes = accumulate(len(each.kind) + len(each.id) + _ARTIFACT_CHARS for each in artifacts)
    count = sum(1 for _ in takewhile(lambda size: size <= MAX_ARTIFACT_CHARS, sizes))
    return artifacts[:count]


MAX_RESULT_FILE_BYTES = 5 * 1024 * 1024
"""All files of one result: they are sent with every later request, and a turn may have many results."""


def with_files(name: str, result: ToolResult) -> ToolResult:
    """Return the result with its files checked; raise `ToolFailure` for what no provider would take."""
    try:
        files = checked_attachments(result.attachments)
    except ValidationError as error:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"{name} ran, but a file in its result can't be shown: {error}.",
        ) from error
    size = sum(len(file.data) for file in files)
    if size > MAX_RESULT_FILE_BYTES:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"{name} ran, but the files in its result have {size} bytes, and {MAX_RESULT_FILE_BYTES} are the "
            "most. Make them smaller, or fewer.",
        )
    return msgspec.structs.replace(result, attachments=files)


def _kept(call: Call, size: int) -> tuple[Artifact, ...]:
    """Return what is kept of an output of which only a part is shown."""
    is_kept = size <= MAX_KEPT_OUTPUT_BYTES
    return (Artifact(kind="output", id=call.call_id, size_bytes=size),) if is_kept else ()


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def failed(failure: ToolFailure) -> CallOutcome:
    """Return the outcome of a failure that the tool, or the way to it, expected."""
    match failure.error_type:
        case ErrorType.PERMISSION_DENIED | ErrorType.APPROVAL_EXPIRED:
            status = CallStatus.DENIED
        case ErrorType.TIMEOUT:
            status = CallStatus.TIMEOUT
        case ErrorType.INTERRUPTED:
            status = CallStatus.INTERRUPTED
        case _:
            status = CallStatus.ERROR
    return _failure(failure.error_type, str(failure), status, failure.details)


def failure_outcome(
    error_type: ErrorType, message: str, *, status: CallStatus = CallStatus.ERROR, **details: Any
) -> CallOutcome:
    """Return an outcome that tells the model what failed."""
    return _failure(error_type, message, status, details)


def timed_out(name: str, seconds: float, effect: Effect) -> CallOutcome:
    """Return the outcome of a call that its deadline stopped."""
    done = "" if effect is Effect.READ else ". What it did until then is done."
    return failure_outcome(
        ErrorType.TIMEOUT,
        f"{name} was stopped after {seconds:g} s{done}",
        status=CallStatus.TIMEOUT,
        elapsed_seconds=seconds,
    )


def denial(
    reason: str, tier: Tier, error_type: ErrorType = ErrorType.PERMISSION_DENIED
) -> ToolFailure:
    """Return the failure that the model gets for a call that was not allowed."""
    return ToolFailure(error_type, f"Not run: {reason}", tier=tier, reason=reason)


def denial_by_answer(answer: ApprovalAnswer, tier: Tier, why: str) -> ToolFailure:
    """Return the failure for a call that a person denied, or about which nobody answered.

    `why` is the reason for asking: it says what to change where nobody could be asked.
    """
    if answer.decision == "expired":
        reason = answer.reason or "nobody answered in time"
        return denial(reason, tier, ErrorType.APPROVAL_EXPIRED)
    said = f": {answer.reason}" if answer.reason else ""
    if answer.answered_by == "callboard":
        said += f" ({why})"
    return denial(f"denied by {answer.answered_by}{said}", tier)


def bounded_failure(failure: ToolFailure, call: Call, max_bytes: int) -> CallOutcome:
    """Return a tool's failure with its long texts cut; the whole is kept as a result's is."""
    try:
        outcome = failed(failure)
    except Exception as crash:  # a failure class of the application
        outcome = crash_outcome(call, crash)
    size = len(outcome.content.encode())
    short = None if size <= max_bytes else cut_failure(outcome.content, call.call_id, max_bytes)
    if short is None:
        return outcome
    kept = _kept(call, size)
    return msgspec.structs.replace(
        outcome,
        content=content_of(short),
        failure=short,
        artifacts=kept,
        full_output=outcome.content if kept else None,
    )


def crash_outcome(call: Call, crash: BaseException) -> CallOutcome:
    """Return the outcome of a tool that raised what it should not, and log the traceback."""
    while isinstance(crash, BaseExceptionGroup) and len(crash.exceptions) == 1:
        crash = crash.exceptions[0]  # a nursery wraps even a single exception
    if isinstance(crash, ToolFailure):
        return failed(crash)
    logger.warning("the tool %s crashed", call.name, exc_info=crash)
    return failure_outcome(ErrorType.EXECUTION_ERROR, f"{call.name} failed: {crash_text(crash)}")


def crash_text(crash: BaseException) -> str:
    """Return an exception in one line."""
    try:
        text = redact(" ".join(str(crash).split()))[:500]
    except Exception:  # an exception of the application, whose own `__str__` may crash too
        text = ""
    return f"{type(crash).__name__}: {text}" if text else type(crash).__name__


def with_arguments(outcome: CallOutcome, arguments: str, max_bytes: int) -> CallOutcome:
    """Return the outcome with the arguments that a person put in place of the model's."""
    note = "A person changed the arguments; the call ran with these."
    if len(arguments) > max_bytes:
        note = "A person changed the arguments; the call ran with others, too long to show here."
        arguments = "null"
    added = f',"arguments":{arguments},"note":{_json(note)}}}'
    return msgspec.structs.replace(outcome, content=outcome.content[:-1] + added)


def with_note(outcome: CallOutcome, note: str) -> CallOutcome:
    """Return the outcome with a note for the model beside its result."""
    if outcome.failure is not None and "note" in outcome.failure:
        return outcome
    return msgspec.structs.replace(
        outcome, content=f'{outcome.content[:-1]},"note":{_json(note)}}}'
    )


def content_of(failure: dict[str, Any]) -> str:
    """Return the JSON text of a failure, without details that have no JSON form even as `repr`."""
    try:
        return _json(failure)
    except Exception:  # the application's `repr` raises, or a mapping holds itself
        logger.warning("details of a failure have no JSON form", exc_info=True)
    return _json({name: value for name, value in failure.items() if _has_form(value)})


def _failure(
    error_type: ErrorType, message: str, status: CallStatus, details: dict[str, Any]
) -> CallOutcome:
    # A mapping and not keywords: a tool may name a detail `status`, as http_request does.
    failure = {**details, "status": "error", "error_type": error_type, "message": message}
    return CallOutcome(
        status=status,
        content=content_of(failure),
        display=message.splitlines()[0][:200] if message else str(error_type),
        failure=failure,
    )


def _has_form(value: object) -> bool:
    try:
        _json(value)
    except Exception:  # as in `content_of`
        return False
    return True


def _json(value: object) -> str:
    """Return the JSON of a value; what has no JSON form is written as its `repr`."""
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except UnicodeEncodeError:  # a lone surrogate, as in a file name that is not UTF-8
        plain = json.dumps(_finite(msgspec.to_builtins(value, enc_hook=repr)), ensure_ascii=False)
        return plain.encode(errors="replace").decode()


def _finite(value: Any) -> Any:
    """Replace infinities and NaN, which JSON does not have, by `None`, as msgspec does."""
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


CANCELLED_ALONE = failure_outcome(
    ErrorType.CANCELLED,
    "A person cancelled this call, and nothing else of the turn. What it did until then is done.",
    status=CallStatus.CANCELLED,
)
"""The outcome of a running call that `Activity.cancel` ends."""


def told_to_stop(server: CalledServer) -> str:
    """Return what a model is told of a server that was asked, and whose answer nobody waits for any more."""
    return f"The server {server.name} was told to stop; it may have done it all the same."


def cancelled_call(
    turn_id: str, call: Call, why: str, was: BrokenOff | None = None, *, killed: int | None = None
) -> CallFinished:
    """Return the result of a call that was cancelled.

    Args:
        turn_id: Its turn.
        call: The call.
        why: The reason, for the model.
        was: How far it had come.
        killed: Of a call that ran programs, how many were killed.
    """
    message, details = f"Not finished: {why}.", {}
    if killed is not None:
        from ...tools.programs.program_result import processes  # here: few cancelled calls ran any

        message = f"{message} {processes(killed).capitalize()}; none is left."
        details = {"killed": killed}
    if was is not None and was.server is not None:
        message = f"{message} {told_to_stop(was.server)}"
    status = CallStatus.CANCELLED
    return unfinished(turn_id, call, ErrorType.CANCELLED, message, status, was, **details)


def unfinished(
    turn_id: str,
    call: Call,
    error_type: ErrorType,
    message: str,
    status: CallStatus,
    was: BrokenOff | None,
    **details: int,
) -> CallFinished:
    """Return the result of a call that has none of its own."""
    outcome = failure_outcome(error_type, message, status=status, **details)
    duration = 0.0 if was is None else trio.current_time() - was.began_at
    return CallFinished(
        turn_id=turn_id,
        call_id=call.call_id,
        name=call.name,
        status=status,
        result=outcome.content,
        display=outcome.display,
        duration_ms=round(duration * 1000),
        server=None if was is None else was.server,
    )


# ── attempts with wrong arguments ────────────────────────────────────────────────────────────────


class CallRetries:
    """Counts the wrong calls of one answer, and tells the model what to correct.

    Args:
        turn_id: The turn of the answer.
        left: How many attempts each tool has left, this one among them.
    """

    def __init__(self, turn_id: str, left: Mapping[str, int]) -> None:
        self._turn_id = turn_id
        self._left = left
        self._given_up: dict[str, ToolGivenUp] = {}
        self._unrecorded: list[ToolGivenUp] = []

    def check(self, name: str) -> None:
        """Raise `ToolFailure` for a tool that the turn goes on without."""
        if self._left.get(name) == 0:
            raise ToolFailure(
                ErrorType.VALIDATION_ERROR,
                f"Not run: {name} was called wrongly in {MAX_ATTEMPTS} answers. {_stop(name)}",
                **{_LEFT: 0},
            )

    def judged(
        self, name: str, outcome: CallOutcome, definition: ToolDefinition | None
    ) -> CallOutcome:
        """Return the outcome; one of wrong arguments gets what the model needs to try again."""
        if outcome.failure is None:
            return outcome
        details = dict(outcome.failure)
        if details.get("error_type") != ErrorType.VALIDATION_ERROR or self._left.get(name) == 0:
            return outcome
        left = self._left.get(name, MAX_ATTEMPTS) - 1
        # The schema may be long, so the mistake stands before it. A tool's own details can't
        # replace what is counted here.
        failure: dict[str, Any] = {
            **{name: details.pop(name) for name in ("status", "error_type", "message")},
            "field": details.pop("field", None),
            _LEFT: left,
            "schema": definition and definition.parameters,
        }
        failure |= {name: value for name, value in details.items() if name not in failure}
        if left == 0:
            self._give_up(name, failure["message"])
            said = failure["message"].removesuffix(TRY_AGAIN).rstrip()
            failure["message"] = (
                f"{said} This was attempt {MAX_ATTEMPTS} of {MAX_ATTEMPTS}. {_stop(name)}"
            )
        content = content_of(failure)
        return msgspec.structs.replace(
            outcome, content=content, failure=failure, attempts_left=left
        )

    def take_given_up(self) -> tuple[ToolGivenUp, ...]:
        """Return the events of tools given up since the last call; stored with the results."""
        taken = tuple(self._unrecorded)
        self._unrecorded.clear()
        return taken

    def _give_up(self, name: str, message: str) -> None:
        if name not in self._given_up:
            event = ToolGivenUp(
                turn_id=self._turn_id, name=name, attempts=MAX_ATTEMPTS, message=message
            )
            self._given_up[name] = event
            self._unrecorded.append(event)


async def tell_parent(
    journal: Mailbox[JournalMessage], place: CallPlace, given_up: tuple[ToolGivenUp, ...]
) -> None:
    """Record the tools that were given up in the parent session too, if there is one."""
    if not given_up or not place.lineage:
        return
    parent, child = place.lineage[0].session_id, place.session_id
    events = tuple(msgspec.structs.replace(event, child_id=child) for event in given_up)
    try:
        await journal.ask(AppendEvents(session_id=parent, events=events))
    except CallboardError as error:  # the child has it on record, and nothing else depends on it
        logger.warning("%s has no record of what %s gave up: %s", parent, child, error)


def _stop(name: str) -> str:
    return f"Do not call {name} again in this turn: go on without it, or say what you could not do."


# ── results that are too large ───────────────────────────────────────────────────────────────────


def cut_output(
    result: ToolResult, encoded: bytes, artifact_id: str, max_bytes: int
) -> dict[str, Any]:
    """Return what the model gets of an oversized output.

    Args:
        result: What the tool returned.
        encoded: Its output as JSON.
        artifact_id: The id under which the whole is kept.
        max_bytes: How large the JSON of what is shown may be.
    """
    short = None
    if isinstance(result.output, dict):
        short = with_short_texts(result.output, result.both_ends, max_bytes)
    if short is not None:
        truncated = _shortened_to(len(encoded), artifact_id)
        return {"status": "success", "result": short, "truncated": truncated}
    head = encoded[:max_bytes].decode(errors="ignore")
    head = head[: _fitting(head, max_bytes)]
    truncated = f"The result is {len(encoded)} bytes of JSON; this is the beginning. "
    if len(encoded) <= MAX_KEPT_OUTPUT_BYTES:
        place = f'path="artifact:{artifact_id}", offset={len(head.encode())}'
        truncated += f"Read on with read_file({place})."
    else:
        truncated += _LOST
    return {"status": "success", "result": head, "truncated": truncated}


def cut_failure(content: str, artifact_id: str, max_bytes: int) -> dict[str, Any] | None:
    """Return an oversized failure with its texts cut, or `None` when that does not do."""
    failure: dict[str, Any] = msgspec.json.decode(content)
    failure["truncated"] = _shortened_to(len(content.encode()), artifact_id)
    return with_short_texts(failure, failure, max_bytes)


def with_short_texts(
    output: dict[str, Any], names: Iterable[str], max_bytes: int
) -> dict[str, Any] | None:
    """Return the output with some of its texts cut, so that its JSON has at most `max_bytes`.

    The shorter texts stay whole, and the others share what room is left. `None` when the rest of
    the output alone is too large.
    """
    texts = {name: output[name] for name in names if isinstance(output.get(name), str)}
    rest = {**output, **dict.fromkeys(texts, "")}
    left = max_bytes - len(msgspec.json.encode(rest))
    if not texts or left < MIN_TEXT_BYTES * len(texts):
        return None
    for waiting, name in zip(
        range(len(texts), 0, -1), sorted(texts, key=lambda name: _size(texts[name])), strict=True
    ):
        texts[name] = _shortened(texts[name], left // waiting)
        left -= _size(texts[name])
    return {**output, **texts}


def _shortened_to(size: int, artifact_id: str) -> str:
    cut = f"The result is {size} bytes of JSON; long texts in it are cut in their middle. "
    if size > MAX_KEPT_OUTPUT_BYTES:
        return cut + _LOST
    return (
        f'{cut}All of it, in pages: read_file(path="artifact:{artifact_id}", offset=0), then '
        "offset=next_offset."
    )


def _shortened(text: str, max_bytes: int) -> str:
    if _size(text) <= max_bytes:
        return text
    room = max_bytes - _NOTE_BYTES
    head = text[: _fitting(text, room // 2)]
    turned = text[len(head) :][::-1]
    tail = turned[: _fitting(turned, room - room // 2)][::-1]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n(… {left_out} of {len(text)} characters are left out …)\n{tail}"


def _fitting(text: str, max_bytes: int) -> int:
    """Return how many of a text's first characters have a JSON of at most `max_bytes`."""
    lengths = range(min(len(text), max_bytes) + 1)
    return bisect_right(lengths, max_bytes, key=lambda length: _size(text[:length])) - 1


def _size(text: str) -> int:
    return json_size(text) - 2  # without its quotation marks
