"""`provider/…` and `model/…` on the wire."""

from __future__ import annotations

import msgspec

from .sizes import Line, ModelName, ModelNames, Word


class ProviderRow(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it is listed.

    Attributes:
        name: As in `PROVIDER/MODEL`.
        base_url: Where it is.
        dialect: Its wire format.
        key: `environment`, `stored`, `missing`, or `none` when it wants none and has none.
        key_env: The environment variable that its key is looked up in first.
        is_active: Whether it may be used.
        source: `built_in`, `callboard.toml`, or `managed`: it was added or changed by a command.
        model: Its model when only the provider is named.
        models: Models that the configuration names beside those that it lists.
        note: Why a key is not sent, or not taken, when there is something to know.
    """

    name: str
    base_url: str
    dialect: str
    key: str
    key_env: str | None
    is_active: bool
    source: str
    model: str | None
    models: tuple[str, ...]
    note: str = ""


class Providers(msgspec.Struct, frozen=True):
    """The providers there are, those built in first; `problem` is why stored keys are locked."""

    providers: list[ProviderRow]
    problem: str = ""


class NewProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider to be added: any server that speaks one of the wire formats.

    Attributes:
        key_env: The environment variable of the daemon that its key is in. Only commands of the
            daemon's own user may name one: it says where that variable is sent.
    """

    name: Word
    base_url: Line
    dialect: Word | None = None
    key_env: Word | None = None
    model: ModelName | None = None
    models: ModelNames = ()


class ChangeProvider(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a provider; what is left out stays, and an empty text takes it back."""

    provider: Word
    base_url: Line | None = None
    dialect: Word | None = None
    key_env: Word | None = None
    model: ModelName | None = None
    models: ModelNames | None = None
    is_active: bool | None = None


class NamedProvider(msgspec.Struct, frozen=True):
    """A provider by its name."""

    provider: Word


class ProviderChanged(msgspec.Struct, frozen=True):
    """The provider as it is by now, `None` when it is gone; and what else there is to know."""

    provider: ProviderRow | None
    notes: tuple[str, ...] = ()


class OneModel(msgspec.Struct, frozen=True):
    """A model that a provider has, whether or not it lists it."""

    provider: Word
    model: ModelName


class ChooseModel(msgspec.Struct, frozen=True):
    """The default `PROVIDER/MODEL`; `None` takes it back."""

    model: ModelName | None


class ModelChosen(msgspec.Struct, frozen=True):
    """What the configuration names as the default, where, and what else there is to know.

    `source` is `callboard.toml`, which wins, or `managed`; `None` without a default.
    """

    model: str | None
    source: str | None
    notes: tuple[str, ...] = ()


class TryProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider to be tried, with one of its models; it costs some tokens."""

    provider: Word
    model: ModelName | None = None


class ListModels(msgspec.Struct, frozen=True):
    """Models of a provider, as it listed them before."""

    provider: Word


class DefaultModel(msgspec.Struct, frozen=True):
    """The `PROVIDER/MODEL` that answers when nothing else names one, and why it is that one."""

    model: str
    reason: str
