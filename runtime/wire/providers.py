"""`provider/…` and `model/…` on the wire."""

from __future__ import annotations

import msgspec

from .fields import Line, ModelName, ModelNames, Secret, Word


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


class SelectedModel(msgspec.Struct, frozen=True):
    """The `PROVIDER/MODEL` that answers when nothing else names one, and why it is that one."""

    model: str
    reason: str


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a key, and from where; never the key.

    Attributes:
        provider: Whose it is: a provider, a search engine, or `git`.
        origin: The only place that it is sent to.
        name: Which of the provider's keys.
        source: `stored` or `environment`.
        variable: The environment variable, when it is there.
        created_at_ms: When it was stored, in Unix milliseconds; `None` for one of the environment.
        is_used: Whether a request takes it: the environment wins over what is stored, and a stored
            one is for the origin that it was stored for. None is sent over http:// to others.
    """

    provider: str
    origin: str
    name: str
    source: str
    variable: str | None = None
    created_at_ms: int | None = None
    is_used: bool


class Keys(msgspec.Struct, frozen=True):
    """The keys there are; `problem` is why those that are stored are locked."""

    keys: list[KeyRow]
    problem: str = ""


class SetKey(msgspec.Struct, frozen=True):
    """A key to be stored for a provider or a search engine, where the configuration says that it is.

    For `git`, a credential for the server at `origin`.
    """

    provider: Word
    key: Secret
    origin: Line | None = None


class KeyOwner(msgspec.Struct, frozen=True):
    """Whose key; for `git`, that of the server at `origin`."""

    provider: Word
    origin: Line | None = None


class KeyDestination(msgspec.Struct, frozen=True):
    """Where a key of this provider is sent, once there is one."""

    provider: str
    origin: str


class KeyStored(msgspec.Struct, frozen=True, kw_only=True):
    """Where the key is sent from now on.

    Attributes:
        master_key: Where a master key was made for it, if one was.
        is_replaced: Whether there was another key for that place.
        note: Why it is not used all the same, when it is not.
    """

    provider: str
    origin: str
    master_key: str | None
    is_replaced: bool = False
    note: str = ""


class KeysRemoved(msgspec.Struct, frozen=True):
    """The origins of the keys that were removed; `note` names one that is left elsewhere."""

    origins: tuple[str, ...]
    note: str = ""
