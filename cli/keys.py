"""What `callboard keys` does: asks for a key, stores it, lists and removes keys."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ..config.base_url import checked_base_url, may_carry_key, origin
from ..config.development_settings import GIT_KEYS
from ..config.key_store import API_KEY, open_key_store
from ..config.key_text import MAX_KEY_LENGTH, is_key
from ..config.search_engines import KnownEngine, engines_of
from ..config.settings import SearchEngine, Settings
from ..providers.known_providers import KnownProvider
from ..providers.provider_keys import has_environment_key
from ..providers.provider_table import (
    CUSTOM,
    CUSTOM_KEY,
    mask_environment_keys,
    provider_named,
    providers_of,
)
from ..runtime.errors import AuthError, NotFoundError, ValidationError
from ..runtime.redaction import redactor
from ..runtime.secrets import Secret
from .complaint import complain
from .escaping import safe_line
from .exit_codes import ANSWERED
from .json_lines import json_line
from .style import counted

MASTER_KEY_MADE = (
    "Made a master key: {place}. It protects backups and copied databases, not against someone "
    "who can read your files. Without it the stored keys can't be used: keep a copy apart."
)


class KeyLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `callboard keys list --json`.

    Attributes:
        provider: Whose it is.
        origin: The only place that it is sent to.
        name: Which of the provider's keys.
        source: `stored` or `environment`.
        variable: The environment variable, when it is there.
        created: When it was stored, in ISO 8601; `None` for one of the environment.
        used: Whether a request takes it: the environment wins over what is stored, and a stored
            one is for the origin that it was stored for. None is sent over http:// to others.
    """

    provider: str
    origin: str
    name: str
    source: str
    variable: str | None = None
    created: str | None = None
    used: bool


class KeyDesk:
    """The commands of one data folder; each gives its exit code."""

    def __init__(self, data: Path, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._store = open_key_store(data, settings.keys, environ)
        mask_environment_keys(settings, environ)

    def put(self, name: str, place: str | None = None) -> int:
        """Asks for a key and stores it; for git, for the server at a place."""
        if name == GIT_KEYS:
            return self._put_credential(place)
        if place is not None:
            raise ValidationError(
                f"--origin is for git. The key of {name} is for where the configuration says it is."
            )
        provider = self._owner(name)
        place = origin(provider.base_url)
        if not may_carry_key(provider.base_url):
            raise AuthError(
                f"A key for {name} is not stored: it would go to {place} in clear text, for "
                "everybody on the way to see. Give the provider an https:// base URL."
            )
        row, made = self._store.put(name, place, _ask(f"Key for {name} ({place}): "))
        if made is not None:
            print(MASTER_KEY_MADE.format(place=made))
        is_replaced = row.binding.version > 1
        print(f"{'Replaced' if is_replaced else 'Stored'} the key of {name} for {place}.")
        if self._is_in_environment(provider):
            variable = provider.variable(self._environ)
            complain(f"{variable} is set too, and wins over the stored key.")
        return ANSWERED

    def _put_credential(self, place: str | None) -> int:
        server = _git_server(place)
        credential = _ask(f"Token, or USER:TOKEN, for git at {server}: ")
        row, made = self._store.put(GIT_KEYS, server, credential)
        if made is not None:
            print(MASTER_KEY_MADE.format(place=made))
        is_replaced = row.binding.version > 1
        print(f"{'Replaced' if is_replaced else 'Stored'} the credential of git for {server}.")
        return ANSWERED

    def show(self, *, json: bool) -> int:
        """Lists who has a key; opens none."""
        lines = [*self._stored(), *self._in_environment()]
        for line in sorted(lines, key=lambda line: (line.provider, line.source, line.origin)):
            sys.stdout.write(json_line(line) if json else _row(line))
        if not lines:
            complain("There are no keys: `callboard keys set PROVIDER` stores one.")
        elif (why := self._store.why_locked()) is not None:
            complain(why)
        return ANSWERED

    def remove(self, name: str) -> int:
        """Removes what is stored; a key of the environment stays where it is."""
        removed = self._store.remove(name)
        provider = self._owners().get(name)
        in_environment = provider is not None and self._is_in_environment(provider)
        kept = (
            f" {provider.variable(self._environ)} is set in the environment, which is not "
            "callboard's to change."
            if provider is not None and in_environment
            else ""
        )
        if not removed:
            raise NotFoundError(f"No key is stored for {name!r}.{kept}")
        for row in removed:
            print(f"Removed the key of {name} for {row.binding.origin}.")
        if kept:
            complain(kept.strip())
        return ANSWERED

    def rotate_master(self) -> int:
        """Puts a new master key in place."""
        count, place = self._store.rotate_master()
        print(f"Encrypted {counted(count, 'key')} anew. The master key is {place}.")
        return ANSWERED

    def _owners(self) -> dict[str, KnownProvider | KnownEngine]:
        """Who may have a key, by name: search engines, and before them providers."""
        return {**engines_of(self._settings.search), **providers_of(self._settings)}

    def _owner(self, name: str) -> KnownProvider | KnownEngine:
        if name == SearchEngine.SEARXNG and name not in self._owners():
            raise NotFoundError(
                "SearXNG is hosted by oneself, and callboard.toml does not say where: name its "
                "base_url in [search]. Most instances want no key."
            )
        return self._owners().get(name) or provider_named(self._settings, name)

    def _is_in_environment(self, provider: KnownProvider | KnownEngine) -> bool:
        return has_environment_key(provider.variable(self._environ), self._environ)

    def _stored(self) -> Iterator[KeyLine]:
        providers = self._owners()
        for row in self._store.rows():
            its = row.binding
            provider = providers.get(its.provider)
            used = its.provider == GIT_KEYS or (
                provider is not None
                and origin(provider.base_url) == its.origin
                and not self._is_in_environment(provider)
                and may_carry_key(provider.base_url)
            )
            created = datetime.fromtimestamp(row.created_at_ms / 1000, UTC)
            yield KeyLine(
                provider=its.provider,
                origin=its.origin,
                name=its.name,
                source="stored",
                created=created.isoformat(timespec="seconds"),
                used=used,
            )

    def _in_environment(self) -> Iterator[KeyLine]:
        places = [
            (provider.name, provider.base_url, provider.variable(self._environ))
            for provider in self._owners().values()
        ]
        for name, url, variable in [*places, (CUSTOM, None, CUSTOM_KEY)]:
            if has_environment_key(variable, self._environ):
                yield KeyLine(
                    provider=name,
                    origin=origin(url) if url is not None else "--base-url",
                    name=API_KEY,
                    source="environment",
                    variable=variable,
                    used=url is None or may_carry_key(url),
                )


def _git_server(place: str | None) -> str:
    """The origin of a git server; raises `ValidationError` when no credential may go there."""
    if place is None:
        raise ValidationError(
            "Say which server the credential is for: "
            f"`callboard keys set {GIT_KEYS} --origin https://github.com`."
        )
    try:
        url = checked_base_url(place)
    except ValueError as error:
        raise ValidationError(f"--origin {place!r}: {error}.") from None
    if not may_carry_key(url):
        raise AuthError(
            f"A credential for {origin(url)} is not stored: it would go there in clear text, for "
            "everybody on the way to see. Use https://."
        )
    return origin(url)


def _ask(question: str) -> Secret:
    """The key that is typed or piped; raises `ValidationError` when it is none."""
    if os.isatty(0):
        try:
            typed = getpass.getpass(question)
        except EOFError:
            typed = ""
    else:
        data = sys.stdin.buffer.read(MAX_KEY_LENGTH + 1) if sys.stdin is not None else b""
        typed = data.decode("ascii", "replace")
    key = typed.strip()
    if not key:
        raise ValidationError("No key was given, and nothing was stored.")
    secret = Secret(key)
    redactor.add(secret)
    if key[0] == key[-1] and key[0] in "\"'":
        redactor.add(Secret(key[1:-1]))
        raise ValidationError(
            "The key stands in quotes, which are no part of it: give it without them. Nothing was "
            "stored."
        )
    if not is_key(key):
        raise ValidationError(
            "That is no key: it is too long, or has a line break or another character that no key "
            "has. Nothing was stored."
        )
    return secret


def _row(line: KeyLine) -> str:
    source = "stored" if line.variable is None else f"environment variable {line.variable}"
    created = (line.created or "").partition("T")[0] or "-"
    is_shown = line.origin != "--base-url" and not may_carry_key(line.origin)
    note = "  (not sent: http)" if is_shown else "" if line.used else "  (not used)"
    provider, place = safe_line(line.provider), safe_line(line.origin)
    return f"{provider:12}  {place:36}  {safe_line(line.name)}  {source}  {created}{note}\n"
