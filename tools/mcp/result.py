"""What a call of a server's tool answered, as a result for the model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from ...runtime.definitions import Artifact, Attachment, ErrorType, ToolFailure, ToolResult
from ...runtime.errors import ValidationError
from ...runtime.history import checked_attachments
from ...runtime.text import excerpt
from .definition import hidden_in_any

MAX_FILES = 16
"""Images and files of one result that models see."""
MAX_FILES_BYTES = 5 * 1024 * 1024
"""All of them together: they go with every later request. An answer of a server holds less, in base64."""
MAX_DISPLAY_CHARS = 200
MAX_ROWS = 200
"""Resources of a server in one list: more than a model chooses well among."""
MAX_ROW_CHARS = 2048
"""Of an address, a name or a description there."""
_SHOWN = ("name", "title", "description", "mimeType")
MAX_PROMPT_TEXT = 100_000
"""Characters of what a server makes of a prompt: more than a person looks through before they send it."""
MAX_PARTS = 1000
"""Parts of one result; more are left out."""


def result_of_answer(name: str, answer: Mapping[str, Any], call_id: str) -> ToolResult:
    """Return the result of an answer in the form of the protocol.

    Its images and files are kept beside it; what stands in their place names them as artifacts of the call.

    Raises `ToolFailure` (`execution_error`) when the server says that the call failed.
    """
    parts = answer.get("content") or []
    files = _Files(call_id)
    shown = [_part(part, files) for part in parts[:MAX_PARTS]]
    if len(parts) > MAX_PARTS:
        shown.append(
            {"type": "note", "text": f"{len(parts) - MAX_PARTS} further parts are left out"}
        )
    said = "\n".join(part if isinstance(part, str) else _json(part) for part in shown)
    if answer.get("isError"):
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR, said or f"{name} failed, and does not say why."
        )
    output: Any = answer.get("structuredContent")
    if output is None:
        output = said if all(isinstance(part, str) for part in shown) else shown
    return ToolResult(
        output=output,
        attachments=tuple(files.kept),
        artifacts=tuple(files.artifacts),
        display=excerpt(said, MAX_DISPLAY_CHARS),
    )


def resource_rows(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lists of a server's resources and templates, for the model."""
    found: dict[str, Any] = {}
    stale = frozenset(said.get("stale") or ())
    for kind, key in (("resources", "uri"), ("resource_templates", "uriTemplate")):
        listed = [each for each in said.get(kind) or () if hidden_in_any(each) is None]
        rows = []
        for each in listed[:MAX_ROWS]:
            row: dict[str, Any] = {
                name: str(each[name])[:MAX_ROW_CHARS] for name in (key, *_SHOWN) if each.get(name)
            }
            if isinstance(each.get("size"), int):
                row["size_bytes"] = each["size"]
            if each.get(key) in stale:
                row["changed_since_it_was_read"] = True
            rows.append(row)
        if rows:
            found[kind] = rows
        if len(listed) > MAX_ROWS:
            found.setdefault("notes", []).append(f"{len(listed) - MAX_ROWS} {kind} are left out")
    if said.get("notes"):
        found["notes"] = [*found.get("notes", ()), *said["notes"]]
    return found


def prompt_text(said: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the messages of a prompt as one text for a person to look at, and what is left out of it.

    Raises `ToolFailure` for what no person could look at.
    """
    messages = said.get("messages") or []
    texts, left_out = [], []
    is_talk = any(each.get("role") != "user" for each in messages)
    for message in messages:
        part = message.get("content") or {}
        resource = part.get("resource") or {}
        match part.get("type"):
            case "text":
                text = str(part.get("text", ""))
            case "resource" if "text" in resource:
                text = f"{resource.get('uri', '')}:\n{resource['text']}"
            case "resource_link":
                text = str(part.get("uri", ""))
            case other:
                left_out.append(f"it has a part that is left out: {str(other)[:100]}")
                continue
        texts.append(f"{str(message.get('role')).capitalize()}: {text}" if is_talk else text)
    whole = "\n\n".join(texts).strip()
    if not whole:
        raise ToolFailure(ErrorType.EXECUTION_ERROR, "There is no text in it.")
    if len(whole) > MAX_PROMPT_TEXT:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR, f"Its text has more than {MAX_PROMPT_TEXT} characters."
        )
    if (hidden := hidden_in_any(whole)) is not None:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"Its text hides a character that people don't see: {hidden}.",
        )
    return whole, tuple(dict.fromkeys(left_out))


def _json(part: dict[str, Any]) -> str:
    return msgspec.json.encode(part).decode()


class _Files:
    """The files of one result that fit."""

    def __init__(self, call_id: str) -> None:
        self.kept: list[Attachment] = []
        self.artifacts: list[Artifact] = []
        self._call_id = call_id
        self._size = 0

    def take(self, media_type: str, data: str, name: str = "") -> dict[str, Any]:
        """Keep a file if it fits; return what stands in its place."""
        place: dict[str, Any] = {"media_type": media_type[:200], "size_bytes": len(data) * 3 // 4}
        if name:
            place["name"] = name
        try:
            found = Attachment(media_type, base64.b64decode(data, validate=True), name[:200])
            place["size_bytes"] = len(found.data)
            checked_attachments([found])
        except (binascii.Error, ValueError, ValidationError) as error:
            return {**place, "left_out": f"it is not a file that can be kept: {error}"[:500]}
        if len(self.kept) >= MAX_FILES or self._size + len(found.data) > MAX_FILES_BYTES:
            return {
                **place,
                "left_out": f"all files of a result have at most {MAX_FILES_BYTES} bytes",
            }
        self._size += len(found.data)
        self.kept.append(found)
        artifact = Artifact(
            kind="attachment",
            id=f"{self._call_id}/{len(self.kept)}",
            size_bytes=len(found.data),
        )
        self.artifacts.append(artifact)
        return {"artifact": artifact.id, **place}


def _part(part: Mapping[str, Any], files: _Files) -> str | dict[str, Any]:
    """Return what the model reads of one part; a text is itself."""
    match part.get("type"):
        case "text":
            return str(part.get("text", ""))
        case "image" | "audio" as kind:
            media = str(part.get("mimeType", "application/octet-stream"))
            return {"type": kind, **files.take(media, str(part.get("data", "")))}
        case "resource_link":
            kept = ("uri", "name", "description", "mimeType")
            return {"type": "resource_link", **{name: part[name] for name in kept if name in part}}
        case "resource":
            return _embedded(part.get("resource") or {}, files)
        case other:
            return {"type": str(other)[:100], "left_out": "a kind of part that is not known"}


def _embedded(resource: Mapping[str, Any], files: _Files) -> dict[str, Any]:
    uri = str(resource.get("uri", ""))[:2000]
    if "text" in resource:
        return {"type": "resource", "uri": uri, "text": str(resource["text"])}
    media = str(resource.get("mimeType", "application/octet-stream"))
    return {"type": "resource", "uri": uri, **files.take(media, str(resource.get("blob", "")))}
