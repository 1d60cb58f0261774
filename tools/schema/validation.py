"""From the model's text to validated arguments, and from a returned value to a result.

The text of a call passes three steps, each of which may refuse it with `WrongArguments`:

1. `parse_arguments` decodes JSON and catches what models get wrong and a decoder lets pass:
   duplicate keys (a person would see one value and the tool another), text that is too large or
   nested too deeply.
2. `prune` drops what means nothing: unknown keys (`approved: true`), and null where a parameter is
   optional. An unknown key that is a known one but for case and underscores (`createDirs`) is taken as
   that one. What is left is the one canonical form that policy, digest, person and tool see.
3. msgspec converts it to the tool's Struct, and `explain` turns its complaint into our words. A
   number like 1.0 counts as an integer where one is wanted, as in JSON Schema.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec
from msgspec import inspect as types

from ...runtime.definitions import Attachment, ErrorType, Image, ToolFailure, ToolResult
from ...runtime.history import media_type_of
from ...runtime.stream import MAX_ARGUMENT_BYTES
from ...runtime.text import excerpt
from ..failures import failed

MAX_DEPTH = 100
"""No tool's arguments come near it, and recursion over them stays far from Python's limit."""
MAX_KEY_LENGTH = 100
"""A longer key is no other spelling of a known one, and cut in messages."""
MAX_NOTED = 5
"""Keys in another spelling that a result names: those of the whole call."""
MAX_DISPLAY_CHARACTERS = 100
"""Shown to people of a plain value: a line of a terminal."""
MAX_DISPLAY_BYTES = 2_000

TRY_AGAIN = "Correct the arguments and call it again."
"""The advice to a model that may still try."""

_ADVICE = re.compile(r" Correct (?:the arguments and call it again|it and call again)\.$")
_ESCAPED_COLON = "\\u003"
_MAX_EXACT = 2.0**53
"""Beyond it a float no longer says which integer was meant."""


def without_advice(message: str) -> str:
    """Return an error message without the advice to the model, as a person reads it."""
    return _ADVICE.sub("", message)


class WrongArguments(Exception):
    """What is wrong with a call's arguments, and in which field of them."""

    def __init__(self, problem: str, field: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field

    def failure(self, tool_name: str, schema: dict[str, Any]) -> ToolFailure:
        """Return the failure that says to the model what to correct."""
        details: dict[str, Any] = {"schema": schema}
        if self.field is not None:
            details = {"field": self.field, **details}
        message = f"{tool_name}: {self.problem}. {TRY_AGAIN}"
        return ToolFailure(ErrorType.VALIDATION_ERROR, message, **details)


class Validator:
    """Decodes the arguments of one tool to a type; a model whose arguments are wrong is shown the schema."""

    def __init__(self, tool_name: str, kind: Any, schema: dict[str, Any]) -> None:
        self._tool_name = tool_name
        self._kind = kind
        self._schema = schema

    @cached_property
    def _shape(self) -> Shape | None:
        return shape_of(types.type_info(self._kind))

    def decode(self, text: str) -> tuple[Any, str, str]:
        """Return the value, the canonical JSON and `spelling_note`; raise `ToolFailure` (`validation_error`)."""
        taken: dict[str, str] = {}
        try:
            tree = prune(parse_arguments(text), self._shape, taken)
            value, tree = self._convert(tree)
        except WrongArguments as wrong:
            raise wrong.failure(self._tool_name, self._schema) from None
        canonical = msgspec.json.encode(tree, order="deterministic").decode()
        return value, canonical, spelling_note(taken) if taken else ""

    def read(self, text: str) -> tuple[Any, str]:
        """Return the value and the canonical JSON; raise `WrongArguments`."""
        value, tree = self._convert(prune(parse_arguments(text), self._shape, {}))
        return value, canonical(tree)

    def _convert(self, tree: Any) -> tuple[Any, Any]:
        try:
            return msgspec.convert(tree, self._kind, str_keys=True, dec_hook=model_of), tree
        except msgspec.ValidationError as error:
            first = error
        # Some providers send every number as a float.
        whole = _whole_numbers(tree)
        try:
            return msgspec.convert(whole, self._kind, str_keys=True, dec_hook=model_of), whole
        except msgspec.ValidationError as error:
            # The second is about another place when the first was only about 1.0.
            last, tree = (error, whole) if "got `float`" in str(first) else (first, tree)
            from .complaint import explain, with_words  # here, as below: most calls are right

            message = with_words(with_keys(str(last), tree, self._kind))
            raise WrongArguments(*explain(message, lambda: self._schema)) from None


def canonical(tree: Any) -> str:
    """Return the one form of a value as JSON, with sorted keys."""
    return msgspec.json.encode(tree, order="deterministic").decode()


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return value


# ── from text to a tree ──────────────────────────────────────────────────────────────────────────


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object in a call's text (empty text: an empty one); raise `WrongArguments`."""
    if not text or text.isspace():
        return {}
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise WrongArguments("the arguments hold a lone surrogate, no character") from None
    if len(encoded) > MAX_ARGUMENT_BYTES:
        raise WrongArguments(
            f"the arguments are larger than {MAX_ARGUMENT_BYTES} bytes; send less at once"
        )
    if text.count("{") + text.count("[") > MAX_DEPTH and is_deeper(text, MAX_DEPTH):
        raise WrongArguments(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    try:
        tree = msgspec.json.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WrongArguments(f"the arguments are not JSON ({error})") from None
    if not isinstance(tree, dict):
        raise WrongArguments("the arguments must be a JSON object")
    # Every key has its colon. When the text has no others than those of the object's own keys, or as
    # many as the decoded tree (of keys and within strings), no key can have been overwritten. An
    # escaped colon would spoil that sum, so such a text takes the slow way.
    colons = text.count(":")
    if colons != len(tree) and (colons != _count_colons(tree) or _ESCAPED_COLON in text):
        _refuse_duplicates(text)
    return tree


def is_deeper(text: str, levels: int) -> bool:
    """Return whether a JSON text nests deeper than that; anything for text that is not JSON."""
    if text.count("{") + text.count("[") <= levels:
        return False
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', text, re.DOTALL):
        if token[0] in {"[", "{"}:
            depth += 1
            if depth > levels:
                return True
        elif token[0] in {"]", "}"}:
            depth -= 1
    return False


def _count_colons(tree: Any) -> int:
    """Return how many colons a JSON text of this value has at least."""
    if isinstance(tree, str):
        return tree.count(":")
    if isinstance(tree, dict):
        count = len(tree)
        for key, value in tree.items():
            count += key.count(":")
            if isinstance(value, (str, dict, list)):
                count += _count_colons(value)
        return count
    return sum(_count_colons(item) for item in tree if isinstance(item, (str, dict, list)))


def _refuse_duplicates(text: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    raise WrongArguments(f"the key `{name}` is given twice", name)
                seen.add(name)
        return made

    # Numbers are of no interest here, and int() refuses more than 4,300 digits.
    json.loads(text, object_pairs_hook=unique, parse_int=str, parse_float=str)


# ── Pydantic's models, which are types of the program's own ──────────────────────────────────────


def is_model(kind: object) -> bool:
    """Return whether this is the class of a Pydantic model; does not import Pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def model_of(kind: type, value: Any) -> Any:
    """Return a value of JSON as a model: msgspec's `dec_hook`."""
    if not is_model(kind):
        raise NotImplementedError
    from .pydantic_models import validated

    return validated(kind, value)


def plain_of(value: Any) -> Any:
    """Return a model as a value of JSON: msgspec's `enc_hook`."""
    if not is_model(type(value)):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return value.model_dump(mode="json", by_alias=True)


# ── which keys a type knows ──────────────────────────────────────────────────────────────────────


class ObjectShape(msgspec.Struct, frozen=True):
    """An object with known keys: for each, whether null is its value, and the shape below.

    Attributes:
        is_open: Whether other keys are kept.
    """

    keys: dict[str, tuple[bool, Any]]
    tag_field: str | None = None
    is_open: bool = False
    spellings: dict[str, str | None] = msgspec.field(default_factory=dict)

    def meant_by(self, key: str) -> str | None:
        """Return the one known key that equals this one but for case and underscores, or `None`."""
        if not self.spellings:  # here: the keys of a recursive type come after its shape is made
            for known in self.keys:
                folded = _folded(known)
                self.spellings[folded] = None if folded in self.spellings else known
        return self.spellings.get(_folded(key)) if len(key) <= MAX_KEY_LENGTH else None


class TaggedShape(msgspec.Struct, frozen=True):
    """One of several objects, told apart by the value of one key."""

    tag_field: str
    by_tag: dict[Any, Any]


class ArrayShape(msgspec.Struct, frozen=True):
    """An array of shaped items."""

    items: Any


class MapShape(msgspec.Struct, frozen=True):
    """An object with free keys and shaped values."""

    values: Any


Shape = ObjectShape | TaggedShape | ArrayShape | MapShape
"""The keys that a type knows, level by level; `None` stands where nothing is to be dropped."""


def shape_of(kind: types.Type, known: dict[Any, Shape] | None = None) -> Shape | None:
    """Return the shape of a type; a recursive type has a recursive shape."""
    known = {} if known is None else known
    match kind:
        case types.Metadata():
            return shape_of(kind.type, known)
        case types.StructType() if not kind.array_like:
            return _object_shape(kind.cls, kind.fields, known, kind.tag_field)
        case types.DataclassType() | types.TypedDictType():
            return _object_shape(kind.cls, kind.fields, known, None)
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            items = shape_of(kind.item_type, known)
            return None if items is None else ArrayShape(items)
        case types.DictType():
            values = shape_of(kind.value_type, known)
            return None if values is None else MapShape(values)
        case types.UnionType():
            return _union_shape(kind, known)
        case types.CustomType() if is_model(kind.cls):
            return _model_shape(kind.cls, known)
        case _:
            return None


def _folded(key: str) -> str:
    return key.replace("_", "").lower()


def spelling_note(taken: Mapping[str, str]) -> str:
    """Return what the model is told about keys that were taken as known ones."""
    said = [f"{given} was taken as {known}" for given, known in taken.items()]
    more = f" and {len(said) - MAX_NOTED} more" if len(said) > MAX_NOTED else ""
    return f"{', '.join(said[:MAX_NOTED])}{more}: write it so."


def prune(value: Any, shape: Shape | None, taken: dict[str, str]) -> Any:
    """Return the value without unknown keys and without nulls that only mean "not given".

    A key that is a known one but for case and underscores is taken as that, and put into `taken`. Raises
    `WrongArguments` when both are given.
    """
    if isinstance(value, dict):
        if isinstance(shape, TaggedShape):
            tag = value.get(shape.tag_field)
            shape = shape.by_tag.get(tag) if isinstance(tag, (str, int)) else None
        if isinstance(shape, ObjectShape):
            return _prune_object(value, shape, taken)
        if isinstance(shape, MapShape):
            return {key: prune(item, shape.values, taken) for key, item in value.items()}
    elif isinstance(value, list) and isinstance(shape, ArrayShape):
        return [prune(item, shape.items, taken) for item in value]
    return value


def _prune_object(
    value: dict[str, Any], shape: ObjectShape, taken: dict[str, str]
) -> dict[str, Any]:
    kept = {}
    for given, item in value.items():
        key, known = given, shape.keys.get(given)
        if known is None:
            if key == shape.tag_field or shape.is_open:
                kept[key] = item
                continue
            meant = shape.meant_by(key)
            if meant is None:
                continue
            if meant in value or meant in kept:
                raise WrongArguments(f"`{given}` means `{meant}`, which is given too", meant)
            key, known = meant, shape.keys[meant]
            taken[given] = meant
        if item is None:
            if known[0]:
                kept[key] = item
        else:
            kept[key] = item if known[1] is None else prune(item, known[1], taken)
    return kept


def _object_shape(
    cls: Any, fields: tuple[types.Field, ...], known: dict[Any, Shape], tag_field: str | None
) -> Shape:
    if cls in known:
        return known[cls]
    keys: dict[str, tuple[bool, Any]] = {}
    shape = known[cls] = ObjectShape(keys, tag_field)
    for field in fields:
        # Null is a value only where the type says so, and it says more than a key that is not there.
        is_value = _takes_null(field.type) and (field.required or field.default is not None)
        keys[field.encode_name] = (is_value, shape_of(field.type, known))
    return shape


def _model_shape(cls: Any, known: dict[Any, Shape]) -> Shape | None:
    if cls in known:
        return known[cls]
    from .pydantic_models import fields_of

    if (fields := fields_of(cls)) is None:
        return None
    keys: dict[str, tuple[bool, Any]] = {}
    shape = known[cls] = ObjectShape(keys)
    for key, is_value, annotation in fields:
        inner = None
        with suppress(TypeError):  # a type that Pydantic alone knows
            inner = shape_of(types.type_info(annotation), known)
        keys[key] = (is_value, inner)
    return shape


def _takes_null(kind: types.Type) -> bool:
    match kind:
        case types.Metadata():
            return _takes_null(kind.type)
        case types.UnionType():
            return kind.includes_none
        case types.LiteralType():
            return None in kind.values
        case _:
            return isinstance(kind, (types.NoneType, types.AnyType))


def _union_shape(kind: types.UnionType, known: dict[Any, Shape]) -> Shape | None:
    tagged: dict[Any, Any] = {}
    tag_field = ""
    found = None
    for member in kind.types:
        if isinstance(member, types.StructType) and member.tag_field is not None:
            tag_field = member.tag_field
            tagged[member.tag] = shape_of(member, known)
        else:
            found = shape_of(member, known) or found
    return TaggedShape(tag_field, tagged) if tagged else found


# ── msgspec's complaint, with the keys of dicts ──────────────────────────────────────────────────

_ANY_ENTRY = "[...]"


def with_keys(message: str, tree: Any, kind: Any) -> str:
    """Return msgspec's message with the keys of dicts in its path: `$.headers.Accept`.

    msgspec writes `[...]` for any key of a dict. Which entry it refused is found by converting
    halves of the dict again: a try takes as long as the whole conversion, and dicts may be large.
    """
    from .complaint import STEP

    begin = message.rfind("`$")
    if _ANY_ENTRY not in message[max(begin, 0) :]:
        return message

    def is_refused(tried: Any) -> bool:
        try:
            msgspec.convert(tried, kind, str_keys=True, dec_hook=model_of)
        except msgspec.ValidationError as error:
            return str(error) == message
        return False

    path: list[str | int] = []
    for step in STEP.finditer(message, begin):
        if step["field"] is not None:
            path.append(step["field"])
        elif step["index"] is not None:
            path.append(int(step["index"]))
        else:
            key = _refused_key(tree, path, is_refused)
            if key is None:
                return message
            path.append(key)
    shown = "".join(f"[{p}]" if isinstance(p, int) else f".{p[:MAX_KEY_LENGTH]}" for p in path)
    return f"{message[:begin]}`${shown}`"


def _refused_key(
    tree: Any, path: Sequence[str | int], is_refused: Callable[[Any], bool]
) -> str | None:
    try:
        entries = tree
        for step in path:
            entries = entries[step]
        keys = list(entries)
    except (KeyError, IndexError, TypeError):  # a name with a dot in it
        return None
    while len(keys) > 1:
        first = keys[: len(keys) // 2]
        some = {key: entries[key] for key in first}
        keys = first if is_refused(_replaced(tree, path, some)) else keys[len(first) :]
    return str(keys[0]) if keys else None


def _replaced(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    if not path:
        return value
    step, *rest = path
    copied = tree.copy()
    copied[step] = _replaced(tree[step], rest, value)
    return copied


# ── results ──────────────────────────────────────────────────────────────────────────────────────

OutputCheck = Callable[[Any], None]
"""Checks an output of plain JSON values; raises `WrongArguments` when it is not as declared."""

_STRICT = json.JSONEncoder(allow_nan=False, check_circular=False)
"""Refuses the numbers that JSON does not have, faster than a loop would find them."""


def result_of(tool_name: str, returned: Any, check: OutputCheck | None) -> ToolResult:
    """Return what a tool's function returned as a result, its output in plain JSON values.

    Raises `ToolFailure` (`execution_error`; `field` names the place) when it can't be written as JSON, or is not
    what the tool declares.
    """
    is_plain = not isinstance(returned, ToolResult)
    if returned.__class__ in _MAY_HAVE_FILES and (parts := _in_parts(returned)) is not None:
        returned, is_plain = parts, False
    result = ToolResult(output=returned) if is_plain else returned
    try:
        output = msgspec.to_builtins(result.output, str_keys=True, enc_hook=plain_of)
        encoded = msgspec.json.encode(output)
        if b"null" in encoded:
            # msgspec writes NaN and infinities as null, and the model would take them for nothing.
            _STRICT.encode(output)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise failed(
            f"{tool_name} ran, but what it returned can't be written as JSON: {error}."
        ) from error
    if check is not None:
        try:
            check(output)
        except WrongArguments as wrong:
            field = {} if wrong.field is None else {"field": wrong.field}
            raise failed(
                f"{tool_name} ran, but its result is not what it declares: {wrong.problem}.",
                **field,
            ) from None
    if not is_plain:
        return msgspec.structs.replace(result, output=output)
    if output is None:
        return ToolResult()
    text = (
        output if isinstance(output, str) else encoded[:MAX_DISPLAY_BYTES].decode(errors="ignore")
    )
    return ToolResult(output=output, display=excerpt(text, MAX_DISPLAY_CHARACTERS))


_MAY_HAVE_FILES = frozenset({Image, Attachment, list, tuple})


def _in_parts(returned: Any) -> ToolResult | None:
    """Return the result of images and files, alone or in a list, which go beside the output; or `None`."""
    if isinstance(returned, Image | Attachment):
        file = _file_of(returned)
        return ToolResult(output=_said(file), display=_shown(file), attachments=(file,))
    if not any(isinstance(part, Image | Attachment) for part in returned):
        return None
    files: list[Attachment] = []
    output: list[Any] = []
    for part in returned:
        if isinstance(part, Image | Attachment):
            files.append(_file_of(part))
            part = _said(files[-1])
        output.append(part)
    shown = ", ".join(map(_shown, files))
    return ToolResult(output=output, display=shown, attachments=tuple(files))


def _file_of(part: Image | Attachment) -> Attachment:
    if isinstance(part, Attachment):
        return part
    kind = media_type_of(part.data)
    if kind is None or not kind.startswith("image/"):
        raise failed(
            f"the data of callboard.Image({part.name!r:.80}) is none of PNG, JPEG, GIF and WebP. Return "
            "callboard.Attachment(media_type, data) for a file of another kind."
        )
    return Attachment(kind, part.data, part.name)


def _said(file: Attachment) -> dict[str, Any]:
    return {"file": file.name, "media_type": file.media_type, "size": len(file.data)}


def _shown(file: Attachment) -> str:
    return f"{file.name or 'a file'} ({file.media_type}, {len(file.data)} bytes)"


def check_of(kind: Any) -> OutputCheck:
    """Return the check that an output has this type; of several types, any of them."""
    if isinstance(kind, tuple):
        *others, last = map(check_of, kind)

        def check_each(output: Any) -> None:
            for check in others:
                with suppress(WrongArguments):
                    return check(output)
            return last(output)

        return check_each

    def check(output: Any) -> None:
        try:
            msgspec.convert(output, kind, str_keys=True, dec_hook=model_of)
        except msgspec.ValidationError as error:
            from .complaint import explain

            said = with_keys(str(error), output, kind)
            raise WrongArguments(*explain(said, lambda: msgspec.json.schema(kind))) from None

    return check
