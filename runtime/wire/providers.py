"""`provider/…` and `model/…` on the wire."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from .fields import MAX_ITEMS, Line, ModelName, ModelNames, Secret, Word


class ProviderRow(msgspec.Struct, frozen=True, kw_only=True):
    """A provider in a list.

    Attributes:
        name: As in `PROVIDER/MODEL`.
        base_url: Its URL.
        dialect: Its wire format.
        key: `environment`, `stored`, `missing`, or `none` if it needs no key and has none.
        key_env: The environment variable that is looked up first for its key.
        is_active: Whether it may be used.
        source: `built_in`, `callboard.toml`, or `managed` if a command added or changed it.
        model: The model to use if only the provider is named.
        models: Models that the configuration names beside those that the provider lists.
        note: Why a key is not sent or not used, if there is something to know.
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
    """All providers, built-in ones first; `problem` says why stored keys are locked."""

    providers: list[ProviderRow]
    problem: str = ""


class NewProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider to add: any server that speaks one of the wire formats.

    Attributes:
        key_env: The daemon's environment variable with its key. Only commands of the daemon's own user
            may name one, because it decides where that variable is sent.
    """

    name: Word
    base_url: Line
    dialect: Word | None = None
    key_env: Word | None = None
    model: ModelName | None = None
    models: ModelNames = ()


class ChangeProvider(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a provider. Fields left out stay as they are; an empty text resets one."""

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
    """The provider after a change, `None` if it was removed, and notes about it."""

    provider: ProviderRow | None
    notes: tuple[str, ...] = ()


class OneModel(msgspec.Struct, frozen=True):
    """A model of a provider, listed by it or not."""

    provider: Word
    model: ModelName


class ChooseModel(msgspec.Struct, frozen=True):
    """The default `PROVIDER/MODEL` to set; `None` removes it."""

    model: ModelName | None


class ModelChosen(msgspec.Struct, frozen=True):
    """The configured default model, where it is configured, and notes about it.

    `source` is `callboard.toml`, which wins, or `managed`; `None` without a default.
    """

    model: str | None
    source: str | None
    notes: tuple[str, ...] = ()


class TryProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider to test with one of its models, which costs some tokens."""

    provider: Word
    model: ModelName | None = None


class ListModels(msgspec.Struct, frozen=True):
    """The provider whose cached list of models is wanted."""

    provider: Word


class SelectedModel(msgspec.Struct, frozen=True):
    """The `PROVIDER/MODEL` that is used if nothing else names one, and why."""

    model: str
    reason: str


class LendModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a command of the daemon's own user has, and the daemon may not: for its turns alone.

    Attributes:
        model: `PROVIDER/MODEL`, or the model's id at `base_url`; by default as the environment says.
        environ: The command's variables with providers' keys, in place of the daemon's.
        is_recorded: Whether the raw answers are kept, in the data folder.
        name: The name that it was lent by before, to have it again: by another process, or over another connection.
    """

    model: ModelName | None = None
    base_url: Line | None = None
    dialect: Word | None = None
    environ: Annotated[dict[Word, Secret], msgspec.Meta(max_length=MAX_ITEMS)] = {}
    is_recorded: bool = False
    name: Word | None = None


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key in a list, without the key itself.

    Attributes:
        provider: A provider, a search engine, or `git`.
        origin: The only place that the key is sent to.
        name: Which of the provider's keys.
        source: `stored` or `environment`.
        variable: The environment variable, if it comes from one.
        created_at_ms: When it was stored, in Unix milliseconds; `None` for one of the environment.
        is_used: Whether requests use it. The environment wins over stored keys, a stored key is only
            for the origin that it was stored for, and no key is sent over http:// to other machines.
    """

    provider: str
    origin: str
    name: str
    source: str
    variable: str | None = None
    created_at_ms: int | None = None
    is_used: bool


class Keys(msgspec.Struct, frozen=True):
    """All keys; `problem` says why stored keys are locked."""

    keys: list[KeyRow]
    problem: str = ""


class SetKey(msgspec.Struct, frozen=True):
    """A key to store for a provider or search engine, at its configured origin.

    For `git`, a credential for the server at `origin`.
    """

    provider: Word
    key: Secret
    origin: Line | None = None


class KeyOwner(msgspec.Struct, frozen=True):
    """The owner of a key; for `git`, the server at `origin`."""

    provider: Word
    origin: Line | None = None


class KeyDestination(msgspec.Struct, frozen=True):
    """The origin to which a key of this provider will be sent."""

    provider: str
    origin: str


class KeyStored(msgspec.Struct, frozen=True, kw_only=True):
    """A stored key, and the origin to which it is sent.

    Attributes:
        master_key: Where a master key was created for it, if one was.
        is_replaced: Whether it replaced another key for that origin.
        note: Why it is not used yet, if it is not.
    """

    provider: str
    origin: str
    master_key: str | None
    is_replaced: bool = False
    note: str = ""


class KeysRemoved(msgspec.Struct, frozen=True):
    """The origins of the removed keys; `note` names a key that remains elsewhere."""

    origins: tuple[str, ...]
    note: str = ""


class ModelSource(enum.StrEnum):
    """Where an offered model is known from."""

    LISTED = "listed"
    """Its provider lists it."""
    KNOWN = "known"
    """callboard's own table has it."""
    MANUAL = "manual"
    """The configuration names it."""
    BUILT_IN = "built_in"
    """It is the rehearsal model."""


class OfferedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be chosen.

    Attributes:
        choice: `PROVIDER/MODEL`.
        title: Its name for people; may be empty.
        context_tokens: Size of its context window, if known.
        max_output_tokens: Longest answer, if known.
        source: Where it is known from.
    """

    choice: str
    title: str = ""
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    source: ModelSource


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The list of models of a provider.

    Attributes:
        provider: Its name.
        models: First those of the configuration, then the provider's in its own order.
        listed_at_ms: When the provider sent its list, in Unix milliseconds; `None` if it did not.
        is_cached: Whether the list comes from the cache.
        problem: Why the provider could not be asked now, or its list not be cached; else empty.
    """

    provider: str
    models: tuple[OfferedModel, ...]
    listed_at_ms: int | None = None
    is_cached: bool = False
    problem: str = ""
