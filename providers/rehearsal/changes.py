"""What really ran: a step with the arguments of its call, which a person may have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from .steps import (
    Clock,
    DeleteFile,
    EditFile,
    FetchUrl,
    Intent,
    ListFolder,
    MoveFile,
    ReadFile,
    RunCode,
    SearchFiles,
    SearchWeb,
    WriteFile,
)

_BLANK: Mapping[str, Intent] = {
    "get_current_time": Clock(),
    "list_directory": ListFolder(),
    "read_file": ReadFile(""),
    "write_file": WriteFile("", ()),
    "edit_file": EditFile("", "", "", read=0),
    "move_file": MoveFile("", ""),
    "delete_file": DeleteFile(""),
    "search_files": SearchFiles(""),
    "web_search": SearchWeb(""),
    "web_fetch": FetchUrl(""),
    "http_request": FetchUrl(""),
    "run_code": RunCode("code", ""),
}


def intent_of(tool: str, arguments: Mapping[str, Any]) -> Intent | None:
    """What a call was for, as far as that is known here."""
    blank = _BLANK.get(tool)
    return None if blank is None else as_run(blank, arguments)


def as_run(intent: Intent, arguments: Mapping[str, Any]) -> Intent:
    """The same intent, of the arguments that ran; they are JSON of whoever wrote them."""
    match intent:
        case Clock():
            zone = _text(arguments, "timezone", "")
            return Clock(zone or None, place=zone)
        case ListFolder() | ReadFile() | DeleteFile():
            return msgspec.structs.replace(intent, path=_text(arguments, "path", intent.path))
        case WriteFile():
            path = _text(arguments, "path", intent.path)
            append = arguments.get("mode") == "append"
            return msgspec.structs.replace(intent, path=path, append=append)
        case EditFile():
            edits = arguments.get("edits")
            first = edits[0] if isinstance(edits, list) and edits else None
            first = first if isinstance(first, dict) else {}
            return msgspec.structs.replace(
                intent,
                path=_text(arguments, "path", intent.path),
                old=_text(first, "old_text", intent.old),
                new=_text(first, "new_text", intent.new),
            )
        case MoveFile():
            source = _text(arguments, "from", intent.source)
            return MoveFile(source, _text(arguments, "to", intent.target))
        case SearchFiles():
            return SearchFiles(
                _text(arguments, "pattern", ""),
                path=_text(arguments, "path", "") or None,
                glob=_text(arguments, "glob", "") or None,
                is_regex=True,
            )
        case SearchWeb():
            return SearchWeb(_text(arguments, "query", intent.query))
        case FetchUrl():
            return FetchUrl(_text(arguments, "url", intent.url))
        case RunCode():
            language = _text(arguments, "language", intent.language)
            return RunCode(language, _text(arguments, "code", intent.code))
        case _:
            assert_never(intent)


def _text(arguments: Mapping[str, Any], name: str, otherwise: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else otherwise
