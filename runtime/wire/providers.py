"""`provider/…` and `model/…` on the wire: keys go in, and never out."""

from __future__ import annotations

import msgspec


class ProviderRow(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it is listed.

    Attributes:
        name: As in `PROVIDER/MODEL`.
        key: `environment`, `stored`, `missing`, or `none` when it wants none and has none.
        is_active: Whether it may be used.
        model: Its model when only the provider is named.
        models: Models that the configuration names beside those that it lists.
    """

    name: str
    base_url: str
    dialect: str
    key: str
    is_active: bool
    model: str | None
    models: tuple[str, ...]


class Providers(msgspec.Struct, frozen=True):
    """The providers there are, those built in and those configured."""

    providers: list[ProviderRow]


class TryProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider to be tried, with one of its models; it costs some tokens."""

    provider: str
    model: str | None = None


class SetKey(msgspec.Struct, frozen=True):
    """A key to be stored for a provider, at the place where the configuration says that it is."""

    provider: str
    key: str


class KeyStored(msgspec.Struct, frozen=True, kw_only=True):
    """Where the key is sent from now on; `master_key` says where one was made for it, if one was."""

    provider: str
    origin: str
    master_key: str | None


class ListModels(msgspec.Struct, frozen=True):
    """Models of a provider, as it listed them before."""

    provider: str


class DefaultModel(msgspec.Struct, frozen=True):
    """The `PROVIDER/MODEL` that answers when nothing else names one, and why it is that one."""

    model: str
    reason: str
