"""`key/…` and `provider/set_key` on the wire: keys go in, and never out."""

from __future__ import annotations

import msgspec

from .sizes import Line, Secret, Word


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


class KeyPlace(msgspec.Struct, frozen=True):
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
