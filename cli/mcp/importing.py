"""The files in which other programs keep their servers, read for `callboard mcp import`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from ...config.mcp.settings import REFERENCE, SERVER_NAME, McpSettings, is_secret_name
from ...runtime.errors import ValidationError
from ...runtime.redaction import Secret, redact

MAX_FILE_BYTES = 1024 * 1024
_OTHER = re.compile(r"[^a-z0-9]+")
_SHELL = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
"""How other programs refer to environment variables."""
_DROPPED = ("autoApprove", "alwaysAllow", "autoApproved", "trust")
_KNOWN = {"command", "args", "env", "type", "url", "headers", "disabled", "timeout", *_DROPPED}


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A server of another program's file.

    Attributes:
        server: It, as it is configured here.
        secrets: The values that go to the key store, by their names.
        notes: What is not taken over, in words.
    """

    server: McpSettings
    secrets: dict[str, Secret] = {}
    notes: tuple[str, ...] = ()


def read_servers(file: Path) -> list[Imported]:
    """Return the servers of a file with `mcpServers`, `servers`, or one server. Nothing of them is started.

    Raises:
        ValidationError: It is no such file, or a server in it can't be used.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValidationError(f"{file} can't be read: {error.strerror or error}.") from error
    if len(data) > MAX_FILE_BYTES:
        raise ValidationError(f"{file} is larger than {MAX_FILE_BYTES} bytes; is it the right one?")
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{file} is not JSON: {error}.") from error
    servers = said.get("mcpServers", said.get("servers")) if isinstance(said, dict) else None
    if servers is None and isinstance(said, dict) and ("command" in said or "url" in said):
        servers = {file.stem: said}
    if not isinstance(servers, dict) or not servers:
        raise ValidationError(
            f'{file} has no servers: it should be like {{"mcpServers": {{"NAME": {{"command": …}}}}}}.'
        )
    return [_imported(str(name), entry) for name, entry in servers.items()]


def _imported(name: str, entry: Any) -> Imported:
    if not isinstance(entry, dict):
        raise ValidationError(f"{name[:80]!r}: a server is an object with command or url.")
    own = _OTHER.sub("-", name.lower()).strip("-")[:32].strip("-")
    if SERVER_NAME.fullmatch(own) is None:
        raise ValidationError(
            f"{name[:80]!r} can't be a server's name here; rename it in the file."
        )
    notes = [] if own == name else [f"it is called {own} here"]
    notes += [
        f"{field} is not taken over: what may run is said by rules"
        for field in _DROPPED
        if field in entry
    ]
    notes += [f"{field} is not known, and left out" for field in entry if field not in _KNOWN]
    secrets: dict[str, Secret] = {}
    fields: dict[str, Any] = {"name": own}
    if "command" in entry:
        fields["command"] = [str(entry["command"]), *map(str, entry.get("args") or ())]
    if "url" in entry:
        fields["url"] = entry["url"]
        fields["type"] = "sse" if entry.get("type") == "sse" else "http"
    for field in ("env", "headers"):
        if values := entry.get(field):
            fields[field] = {
                str(key): _value(str(key), str(value), secrets)
                for key, value in dict(values).items()
            }
    if entry.get("disabled"):
        fields["enabled"] = False
    return Imported(server=server_of(fields), secrets=secrets, notes=tuple(notes))


def server_of(fields: dict[str, Any]) -> McpSettings:
    """Return the settings of these fields; raise `ValidationError`."""
    try:
        return msgspec.convert(fields, McpSettings)
    except msgspec.ValidationError as error:
        text = str(error).partition(" - at `$")[0]
        raise ValidationError(f"{fields.get('name', 'the server')}: {text}.") from error


def _value(name: str, value: str, secrets: dict[str, Secret]) -> str:
    """Return a value as it may stand in a configuration; what may be a secret becomes a reference."""
    value = _SHELL.sub(lambda match: f"${{env:{match[1]}}}", value)
    if REFERENCE.search(value) is not None:
        return value
    if not value or (not is_secret_name(name) and redact(value) == value):
        return value
    key = _OTHER.sub("-", name.lower()).strip("-")[:64]
    secrets[key] = Secret(value)
    return f"${{key:{key}}}"
