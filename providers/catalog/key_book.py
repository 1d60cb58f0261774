"""Changes of stored keys of providers, search engines, git servers and hooks, by commands and clients.

Nothing here returns a key. Everything blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ...config.base_url import checked_base_url, may_carry_key, origin
from ...config.keys.sealing import KeyBinding
from ...config.keys.store import API_KEY, open_key_store
from ...config.mcp.settings import MCP_KEYS, references
from ...config.search_engines import KnownEngine, engines_of
from ...config.sections import GIT_KEYS, OTEL_KEY
from ...config.settings import SearchEngine, Settings
from ...runtime.errors import AuthError, NotFoundError, ValidationError
from ...runtime.hooks.hook import NOTIFY, SECRET_PLACE, key_name, webhook_key_name
from ...runtime.redaction import Secret, redactor
from ...runtime.wire.providers import KeyDestination, KeyRow, Keys, KeysRemoved, KeyStored
from .keys import has_environment_key, is_key
from .known import KnownProvider
from .table import CUSTOM, CUSTOM_KEY, mask_environment_keys, provider_named, providers_of

MIN_HOOK_SECRET = 16
"""Characters of a hook's secret: a shorter one could be guessed, with a delivery or as a token."""


class KeyBook:
    """Lists, stores and removes keys.

    Args:
        data: The data folder.
        settings: Who may have a key, and where they are.
        environ: Where other keys are.
    """

    def __init__(self, data: Path, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._store = open_key_store(data, settings.keys, environ)
        mask_environment_keys(settings, environ)

    def keys(self) -> Keys:
        """Return who has a key. No key is opened."""
        rows = [*self._stored(), *self._in_environment()]
        rows.sort(key=lambda row: (row.provider, row.source, row.origin))
        return Keys(rows, (self._store.why_locked() or "") if rows else "")

    def place(self, name: str, where: str | None) -> KeyDestination:
        """Return where a key of this name would be sent.

        Args:
            name: A provider, a search engine, `git`, `otel`, a hook as `hook:NAME` or a webhook as `webhook:NAME`.
            where: The server, for `git` alone.

        Raises:
            NotFoundError: There is none of that name.
            AuthError: It would travel in clear text, and is not stored.
            ValidationError: The server is missing, or is given for a name that has only one.
        """
        if name == GIT_KEYS:
            return KeyDestination(name, _git_server(where))
        if name == OTEL_KEY:
            return KeyDestination(name, self._collector())
        if ":" in name:
            return KeyDestination(name, self._hook(name))
        if where is not None:
            raise ValidationError(
                f"--origin is for git. The key of {name} is for where the configuration says it is.",
                field="origin",
            )
        its = self._owner(name)
        if not may_carry_key(its.base_url):
            raise AuthError(
                f"A key for {name} is not stored: it would go to {origin(its.base_url)} in clear "
                "text, for everybody on the way to see. Give the provider an https:// base URL."
            )
        return KeyDestination(name, origin(its.base_url))

    def put(self, name: str, where: str | None, key: Secret) -> KeyStored:
        """Store a key, encrypted; raises as `place`, and `ValidationError` for a malformed key."""
        redactor.add(key)
        if not is_key(key.reveal()):
            raise ValidationError(
                "That is not a key: it is empty, too long, or has a line break or another character "
                "that no key has. Nothing was stored.",
                field="key",
            )
        place = self.place(name, where)
        if place.origin == SECRET_PLACE and len(key.reveal()) < MIN_HOOK_SECRET:
            raise ValidationError(
                f"A hook's secret has {MIN_HOOK_SECRET} characters or more, as `openssl rand -hex 32` makes "
                "it. Nothing was stored.",
                field="key",
            )
        row, made = self._store.put(name, place.origin, key)
        its = self._owners().get(name)
        is_shadowed = its is not None and self._is_in_environment(its)
        variable = its.variable(self._environ) if its is not None else None
        return KeyStored(
            provider=name,
            origin=place.origin,
            master_key=made,
            is_replaced=row.binding.version > 1,
            note=f"{variable} is set too, and wins over the stored key." if is_shadowed else "",
        )

    def remove(self, name: str) -> KeysRemoved:
        """Remove stored keys; a key of the environment stays.

        Raises:
            NotFoundError: Nothing was stored.
        """
        removed = self._store.remove(name)
        its, note = self._owners().get(name), ""
        if its is not None and self._is_in_environment(its):
            note = (
                f"{its.variable(self._environ)} is set in the environment, which is not "
                "callboard's to change."
            )
        if not removed:
            raise NotFoundError(f"No key is stored for {name!r}. {note}".rstrip())
        return KeysRemoved(tuple(row.binding.origin for row in removed), note)

    def _owners(self) -> dict[str, KnownProvider | KnownEngine]:
        """Return who may have a key, by name: providers, then search engines."""
        return {**engines_of(self._settings.search), **providers_of(self._settings)}

    def _owner(self, name: str) -> KnownProvider | KnownEngine:
        if name == SearchEngine.SEARXNG and name not in self._owners():
            raise NotFoundError(
                "SearXNG is hosted by oneself, and callboard.toml does not say where: name its "
                "base_url in [search]. Most instances want no key."
            )
        return self._owners().get(name) or provider_named(self._settings, name)

    def _collector(self) -> str:
        """Return the origin of the collector of `[telemetry]`, if a key may be sent there."""
        endpoint = self._settings.telemetry.endpoint
        if endpoint is None:
            raise NotFoundError(
                "There is no collector to have a key: callboard.toml names its endpoint in [telemetry]."
            )
        if not may_carry_key(endpoint):
            raise AuthError(
                f"A key for {origin(endpoint)} is not stored: it would go there in clear text, for everybody "
                "on the way to see. Give [telemetry] an https:// endpoint."
            )
        return origin(endpoint)

    def _hook(self, name: str) -> str:
        if name not in self._hooks():
            table, _, own = name.partition(":")
            raise NotFoundError(
                f"There is no {table} {own!r}: callboard.toml has it as [{table}s.{own}]."
            )
        return SECRET_PLACE

    def _hooks(self) -> set[str]:
        """Return the names of the secrets that hooks may have."""
        outward = {*self._settings.webhooks, NOTIFY}
        return {*map(key_name, self._settings.hooks), *map(webhook_key_name, outward)}

    def _is_of_server(self, its: KeyBinding) -> bool:
        """Whether it is a secret, or the login, of a server of `[mcp]`."""
        owner, _, key = its.origin.partition("/")
        server = self._settings.mcp.get(owner) if its.provider == MCP_KEYS else None
        return server is not None and (key == server.url or ("key", key) in references(server))

    def _is_in_environment(self, its: KnownProvider | KnownEngine) -> bool:
        return has_environment_key(its.variable(self._environ), self._environ)

    def _stored(self) -> Iterator[KeyRow]:
        owners, endpoint = self._owners(), self._settings.telemetry.endpoint
        collector = (OTEL_KEY, "" if endpoint is None else origin(endpoint))
        for row in self._store.rows():
            its = row.binding
            owner = owners.get(its.provider)
            is_used = (
                its.provider in {GIT_KEYS, *self._hooks()}
                or self._is_of_server(its)
                or (its.provider, its.origin) == collector
                or (
                    owner is not None
                    and origin(owner.base_url) == its.origin
                    and not self._is_in_environment(owner)
                    and may_carry_key(owner.base_url)
                )
            )
            yield KeyRow(
                provider=its.provider,
                origin=its.origin,
                name=its.name,
                source="stored",
                created_at_ms=row.created_at_ms,
                is_used=is_used,
            )

    def _in_environment(self) -> Iterator[KeyRow]:
        places = [
            (its.name, its.base_url, its.variable(self._environ)) for its in self._owners().values()
        ]
        for name, url, variable in [*places, (CUSTOM, None, CUSTOM_KEY)]:
            if has_environment_key(variable, self._environ):
                yield KeyRow(
                    provider=name,
                    origin=origin(url) if url is not None else "--base-url",
                    name=API_KEY,
                    source="environment",
                    variable=variable,
                    is_used=url is None or may_carry_key(url),
                )


def _git_server(place: str | None) -> str:
    """Return the origin of a git server, or raise if no credential may be sent there."""
    if place is None:
        raise ValidationError(
            "Say which server the credential is for: "
            f"`callboard keys set {GIT_KEYS} --origin https://github.com`.",
            field="origin",
        )
    try:
        url = checked_base_url(place)
    except ValueError as error:
        raise ValidationError(f"--origin {place!r}: {error}.", field="origin") from None
    if not may_carry_key(url):
        raise AuthError(
            f"A credential for {origin(url)} is not stored: it would go there in clear text, for "
            "everybody on the way to see. Use https://."
        )
    return origin(url)
