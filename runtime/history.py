"""The history of a conversation as providers need it: inputs, answers and results, in rounds.

A round is one answer of the model with the input before it and the results after it. Finished rounds
never change, so each is encoded once for a wire format and the bytes are kept (`Round.encoded`): the
request of turn 400 is a join of byte strings, not a re-encoding.

Attachments are checked here before anything is stored or sent. An input that a provider refuses would
stay in its session's history and be refused again in every later turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .definitions import Attachment as Attachment
from .definitions import CallStatus
from .errors import ValidationError


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text", gc=False):
    """Text of an answer."""

    text: str


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking", gc=False):
    """One block of visible reasoning, with the provider's signature when it gave one."""

    text: str
    signature: str | None = None


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal", gc=False):
    """Text in which the model refuses."""

    text: str


class Opaque(msgspec.Struct, frozen=True, tag_field="type", tag="opaque", gc=False):
    """A part that only its own wire format understands."""

    dialect: str
    kind: str
    data: msgspec.Raw


class Call(msgspec.Struct, frozen=True, tag_field="type", tag="call", gc=False):
    """The model asks for a tool.

    `call_id` is unique in the session; `arguments` is the model's own text, not necessarily JSON.
    """

    call_id: str
    name: str
    arguments: str


Part = Text | Thinking | Refusal | Opaque | Call


MAX_ATTACHMENTS = 16
"""Attachments of one input: as many images as the strictest provider accepts."""
MAX_ATTACHED_BYTES = 20 * 1024 * 1024
"""All attachments of one input: what providers accept in one request, in base64."""


class Input(msgspec.Struct, frozen=True, tag_field="type", tag="input", gc=False):
    """An input of a person, or of the runtime."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class Answer(msgspec.Struct, frozen=True, tag_field="type", tag="answer", gc=False):
    """One answer of a model.

    `dialect`, `provider` and `model` say where it comes from: signatures and opaque parts are sent back
    only to that provider, in that dialect.
    """

    parts: tuple[Part, ...]
    dialect: str = ""
    model: str = ""
    provider: str = ""
    incomplete: bool = False

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that it asks for, in order."""
        return tuple([part for part in self.parts if type(part) is Call])

    @property
    def has_calls(self) -> bool:
        """Whether it asks for any call."""
        return any(type(part) is Call for part in self.parts)

    @property
    def text(self) -> str:
        """The text for a person, without reasoning."""
        return text_of(self.parts)


def text_of(parts: Iterable[Part]) -> str:
    """Return the words of an answer, without the model's reasoning and its calls."""
    return "".join(part.text for part in parts if isinstance(part, Text | Refusal))


class Result(msgspec.Struct, frozen=True, tag_field="type", tag="result", gc=False):
    """The one result of a call: `content` is the JSON text that the model gets, with files beside it."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()


Item = Input | Answer | Result


class Round(msgspec.Struct, eq=False, gc=False):
    """A finished round; immutable except for the cache of its encoded forms.

    A history of thousands holds nothing that the garbage collector looks through: no item leads back to another.

    Attributes:
        items: Inputs, at most one answer, and the results of that answer in order.
        encoded: Bytes by wire format, and by provider where those differ; filled on first use.
    """

    items: Sequence[Item]
    encoded: dict[str, bytes] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = tuple(self.items)


def rounds_of(items: Iterable[Item]) -> list[Round]:
    """Return a history in rounds, repaired: each ends with an answer and its results."""
    rounds: list[Round] = []
    open_round: list[Item] = []
    for item in repair_history(items):
        if not isinstance(item, Result) and open_round and not isinstance(open_round[-1], Input):
            rounds.append(Round(open_round))
            open_round = []
        open_round.append(item)
    return [*rounds, Round(open_round)] if open_round else rounds


def call_ids_of(rounds: Iterable[Round]) -> Iterator[str]:
    """Yield the ids of the calls of these rounds."""
    for each in rounds:
        for item in each.items:
            if isinstance(item, Answer):
                yield from (call.call_id for call in item.calls)


LOST = msgspec.json.encode(
    {
        "status": "error",
        "error_type": "interrupted",
        "message": "The process stopped while this ran; its outcome is unknown. "
        "Check before you retry.",
    }
).decode()
"""The result of a call for which none was recorded."""


def repair_history(items: Iterable[Item]) -> list[Item]:
    """Return a history that every provider accepts: each call is followed by exactly one result.

    Missing results become `LOST` and results of unknown calls are dropped. Of several results for one
    call, a real one wins over a `LOST` one, and the first over later ones. Results come in call order
    directly after their answer. Pure, deterministic and idempotent.
    """
    items = list(items)
    results: dict[str, Result] = {}
    for item in items:
        if type(item) is Result:
            known = results.get(item.call_id)
            if known is None or (known.content == LOST and item.content != LOST):
                results[item.call_id] = item
    return list(_with_results(items, results))


def _with_results(items: Sequence[Item], results: dict[str, Result]) -> Iterator[Item]:
    seen: set[str] = set()
    for item in items:
        if type(item) is Result:
            continue
        if type(item) is not Answer:
            yield item
            continue
        calls: list[Call] = []
        parts: list[Part] = []
        for part in item.parts:
            if type(part) is Call:
                if part.call_id in seen:
                    continue
                seen.add(part.call_id)
                calls.append(part)
            parts.append(part)
        if len(parts) != len(item.parts):
            item = msgspec.structs.replace(item, parts=tuple(parts))
        if not parts:
            continue
        yield item
        for call in calls:
            yield results.get(call.call_id) or Result(call.call_id, call.name, LOST, is_error=True)


def is_error(status: CallStatus) -> bool:
    """Whether a result with this status is an error to the model."""
    return status is not CallStatus.SUCCESS


OWN_TYPE = "give it its own media type"
"""The advice for a wrong media type where the caller names the types."""

MAX_NAME_CHARS = 255
"""The longest file name of common file systems."""

_MEDIA_TYPE = re.compile(r"[A-Za-z]+/[A-Za-z0-9][A-Za-z0-9.+_-]{0,100}( *;[ -~]{0,100})?")

_BEGINNINGS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "application/pdf": re.compile(rb".{0,1024}%PDF-", re.DOTALL),
}
"""The beginnings of files that providers decode. PDF readers accept some bytes before the mark."""


def media_type_of(data: bytes) -> str | None:
    """Return the media type of an image or PDF by its first bytes; `None` for anything else."""
    found = (kind for kind, beginning in _BEGINNINGS.items() if beginning.match(data))
    return next(found, None)


def checked_attachments(attachments: Iterable[Attachment]) -> tuple[Attachment, ...]:
    """Return the attachments of one input after checking them.

    Raises:
        ValidationError: They are too many, too large, empty, or not of their media type.
    """
    given = tuple(attachments)
    for each in given:
        if problem := _problem(each):
            raise ValidationError(problem, field="attachments")
    size = sum(len(each.data) for each in given)
    if len(given) > MAX_ATTACHMENTS or size > MAX_ATTACHED_BYTES:
        raise ValidationError(
            f"{len(given)} attachments of {size} bytes are too much for one prompt; at most "
            f"{MAX_ATTACHMENTS} of together {MAX_ATTACHED_BYTES} bytes are allowed",
            field="attachments",
        )
    return given


def _problem(given: Attachment) -> str | None:
    texts = (getattr(given, "media_type", None), getattr(given, "name", None))
    is_typed = isinstance(given, Attachment) and isinstance(given.data, bytes)
    if not is_typed or not all(isinstance(text, str) for text in texts):
        return f"an attachment is a callboard.Attachment with bytes; this is {given!r:.80}"
    if not _MEDIA_TYPE.fullmatch(given.media_type):
        return f"{given.media_type!r:.80} is not a media type, like image/png or text/plain"
    if len(given.name) > MAX_NAME_CHARS:
        return f"the name {given.name!r:.80} has more than {MAX_NAME_CHARS} characters"
    named = f"the attachment {given.name!r:.80}" if given.name else "an attachment"
    if not given.data:
        return f"{named} is empty"
    kind = given.media_type.partition(";")[0].strip().lower()
    if (beginning := _BEGINNINGS.get(kind)) is not None and not beginning.match(given.data):
        found = media_type_of(given.data)
        is_what = f"; it begins like {found}" if found is not None else ""
        return f"{named} is not {kind}{is_what}: {OWN_TYPE}"
    return None
