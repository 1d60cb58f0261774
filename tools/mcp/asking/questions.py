"""What a server asks of people while a call runs (elicitation): forms, and addresses to open; and who asks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
import trio

from ....config.mcp.settings import is_secret_name
from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.errors import CallboardError, ValidationError
from ....runtime.event_types.form import MAX_FIELDS, checked_value, form_answer
from ....runtime.event_types.people import FieldKind, FormField, QuestionForm
from ....runtime.handles import ModelAnswer, ModelQuestion, PersonAnswer
from ....runtime.text import hidden_in
from ...tool import ToolContext
from ..definition import hidden_in_any
from .model import shown_model_question

MAX_MESSAGE_CHARS = 4000
"""Of what a server says of its question: a screen."""
MAX_TEXT_CHARS = 500
"""Of a title, a description or an option."""
MAX_OPTIONS = 100
MAX_FORM_BYTES = 64 * 1024
"""A whole form: it is on record, and a person reads it."""
MAX_URL_CHARS = 2048
MAX_QUESTIONS = 20
"""Questions of one call; a server that asks more is told no."""
DECLINE: Final = "decline"
OPENED = "I have opened it"
SEND = "send it"
SECRET_WARNING = (
    "It asks for what may be a secret ({names}). A form is no place for one: decline, if in doubt."
)
_KINDS: Mapping[str, FieldKind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "yes_no",
}


class ServerQuestion(NamedTuple):
    """A question of a server: for the values of fields, or that an address be opened."""

    message: str
    form: QuestionForm


class ServerAnswer(NamedTuple):
    """A person's answer; `cancel` when nobody gave one in time."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


def read_message(text: str) -> str:
    """Return what a server says of its question; raise `ValidationError` when a part of it would not be seen."""
    if (hidden := hidden_in(text)) is not None:
        raise ValidationError(f"the question hides a character that people don't see: {hidden}")
    return text[:MAX_MESSAGE_CHARS]


def read_form(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of a form, as the protocol describes it; raise `ValidationError`."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not 0 < len(properties) <= MAX_FIELDS:
        raise ValidationError(f"a form has 1 to {MAX_FIELDS} fields")
    if (hidden := hidden_in_any(schema)) is not None:
        raise ValidationError(f"the form hides a character that people don't see: {hidden}")
    required = schema.get("required") or ()
    fields = tuple(_field(str(name), its, name in required) for name, its in properties.items())
    if len(msgspec.json.encode(fields)) > MAX_FORM_BYTES:
        raise ValidationError(f"the form has more than {MAX_FORM_BYTES} bytes")
    return fields


def read_url(url: str) -> str:
    """Return an address that a person may be shown; raise `ValidationError`."""
    try:
        where = urlsplit(url)
        is_web = where.scheme in {"https", "http"} and bool(where.hostname)
        # "https://bank.example@thief.example", and "https://thief.example\\@bank.example" for browsers
        is_plain = where.username is None and "\\" not in url
    except ValueError:
        is_web = is_plain = False
    if (
        not (is_web and is_plain)
        or len(url) > MAX_URL_CHARS
        or not url.isascii()
        or not url.isprintable()
    ):
        raise ValidationError("the address is not one of a page, or has characters that none has")
    return url


class CallAsker:
    """Asks for a call what its server wants to know, one question after the other, outside of the call's deadline.

    Args:
        server: The server's name.
        context: The call's.
    """

    def __init__(self, server: str, context: ToolContext) -> None:
        self._server = server
        self._context = context
        self._lock = trio.Lock()
        self._asked = 0

    async def people(self, question: ServerQuestion) -> ServerAnswer:
        """Ask the people of the call's session."""
        form = question.form
        options = (OPENED, DECLINE) if form.url else (DECLINE,)
        with self._context.outside_deadline():
            async with self._lock:
                try:
                    said = await self._put(_text(self._server, question), options, form)
                except CallboardError as error:
                    is_late = isinstance(error, ToolFailure) and (
                        error.error_type is ErrorType.APPROVAL_EXPIRED
                    )
                    return ServerAnswer("cancel" if is_late else DECLINE)
        if said.option is not None and options[said.option] == DECLINE:
            return ServerAnswer(DECLINE)
        return ServerAnswer("accept", None if form.url else form_answer(form.fields, said.text))

    async def model(self, question: ModelQuestion) -> ModelAnswer:
        """Ask the model of the call's turn, once a person has seen and allowed all that is sent; raise `ToolFailure`."""
        model = self._context.model
        if model is None:
            raise ToolFailure(ErrorType.PERMISSION_DENIED, "There is no model to ask here.")
        with self._context.outside_deadline():
            async with self._lock:
                text = shown_model_question(self._server, model.name, question)
                try:
                    said = await self._put(text, (SEND, DECLINE))
                except CallboardError as error:
                    raise ToolFailure(ErrorType.PERMISSION_DENIED, "Nobody allowed it.") from error
                if said.option != 0:
                    raise ToolFailure(ErrorType.PERMISSION_DENIED, "A person declined.")
                return await model.ask(self._context.call_id, question)

    async def _put(
        self, text: str, options: tuple[str, ...], form: QuestionForm | None = None
    ) -> PersonAnswer:
        await trio.lowlevel.checkpoint()
        self._asked += 1
        if self._context.channel is None or self._asked > MAX_QUESTIONS:
            raise ToolFailure(ErrorType.PERMISSION_DENIED, "There is nobody to ask here.")
        return await self._context.channel.ask(text, options, form=form, is_one_of_many=True)


def _text(server: str, question: ServerQuestion) -> str:
    lines = [f"The server {server} asks: {question.message}"]
    form = question.form
    if form.url:
        lines.append(f"It wants you to open a page of {urlsplit(form.url).netloc}: {form.url}")
    secrets = [field.name for field in form.fields if is_secret_name(field.name + field.title)]
    if secrets:
        lines.append(SECRET_WARNING.format(names=", ".join(secrets)))
    return "\n".join(lines)


def _field(name: str, its: Any, required: bool) -> FormField:
    if not isinstance(its, Mapping) or not name or len(name) > MAX_TEXT_CHARS or hidden_in(name):
        raise ValidationError("a field of the form is none")
    kind = its.get("type", "string")
    described: dict[str, Any] = {
        "name": name,
        "title": _short(its.get("title")),
        "description": _short(its.get("description")),
        "required": required,
    }
    if kind == "array":
        items = its.get("items")
        options, labels = _options(items if isinstance(items, Mapping) else {}, "anyOf")
        bounds = its.get("minItems"), its.get("maxItems")
        described |= {"kind": "choices", "options": options, "labels": labels}
    elif kind == "string" and ("enum" in its or "oneOf" in its):
        options, labels = _options(its, "oneOf")
        bounds = None, None
        described |= {"kind": "choice", "options": options, "labels": labels}
    elif kind in _KINDS:
        names = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
        bounds = its.get(names[0]), its.get(names[1])
        described |= {"kind": _KINDS[kind], "form": _short(its.get("format"))}
    else:
        raise ValidationError(f"{name[:100]}: its type is not one of a form")
    least, most = (each if isinstance(each, (int, float)) else None for each in bounds)
    field = FormField(**described, least=least, most=most)
    if its.get("default") is None:
        return field
    return FormField(
        **described, least=least, most=most, default=checked_value(field, its["default"])
    )


def _options(its: Mapping[str, Any], key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values of a choice, and what people read of them."""
    titled = its.get(key)
    if isinstance(titled, list):
        pairs = [each for each in titled if isinstance(each, Mapping)]
        values = [str(each.get("const", "")) for each in pairs]
        labels = [_short(each.get("title")) for each in pairs]
    else:
        values = [str(each) for each in its.get("enum") or ()]
        names = its.get("enumNames")
        labels = [_short(each) for each in names] if isinstance(names, list) else []
    is_long = any(len(each) > MAX_TEXT_CHARS for each in values)
    if not values or len(values) > MAX_OPTIONS or is_long or len(set(values)) < len(values):
        raise ValidationError(f"a choice of a form has 1 to {MAX_OPTIONS} different options")
    return tuple(values), tuple(labels) if len(labels) == len(values) else ()


def _short(text: object) -> str:
    return "" if text is None else str(text)[:MAX_TEXT_CHARS]
