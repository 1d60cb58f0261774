"""Finding a provider's key: the environment's, else the one stored for its origin.

A key goes only to the origin that it belongs to, and in clear text only to this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from ...config.base_url import may_carry_key, origin
from ...runtime.errors import AuthError
from ...runtime.redaction import Secret, redactor

MAX_KEY_LENGTH = 8192
"""Longest key; a header of this size still passes every server."""


def is_key(text: str) -> bool:
    """Return whether a text can travel in a header as it is."""
    return 0 < len(text) <= MAX_KEY_LENGTH and text.isascii() and text.isprintable()


StoredKeys = Callable[[str, str], Secret | None]
"""Finds the stored key of a provider at an origin; raises `AuthError` if it is locked."""


def no_stored_keys(provider: str, origin: str) -> Secret | None:
    """Find nothing: for programs without a key store."""
    return None


StoredPlaces = Callable[[str], Sequence[str]]
"""Finds the origins for which a provider's keys are stored."""


def no_stored_places(provider: str) -> Sequence[str]:
    """Find nothing: for programs without a key store."""
    return ()


def has_environment_key(key_env: str | None, environ: Mapping[str, str]) -> bool:
    """Return whether the variable is set and not empty."""
    return key_env is not None and bool(environ.get(key_env, "").strip())


def find_key(
    provider: str,
    base_url: str,
    key_env: str | None,
    environ: Mapping[str, str],
    stored: StoredKeys,
) -> Secret | None:
    """Return the provider's key, masked in every log from now on, `None` if it has none.

    Raises:
        AuthError: It is broken, or locked.
    """
    if not has_environment_key(key_env, environ):
        return stored(provider, origin(base_url))
    value = environ[key_env or ""].strip()
    if not is_key(value):
        raise AuthError(
            f"{key_env} does not hold a key: it is too long, or has a line break or "
            f"another character that no key has. Set it again."
        )
    key = Secret(value)
    redactor.add(key)
    return key


def check_key_may_travel(base_url: str, key_env: str | None, environ: Mapping[str, str]) -> None:
    """Raise `AuthError` if the key would travel in clear text."""
    if may_carry_key(base_url):
        return
    in_environment = has_environment_key(key_env, environ)
    which = f"The key in {key_env}" if in_environment else "The stored key"
    remedy = "unset the variable" if in_environment else "remove it"
    raise AuthError(
        f"{which} is not sent to {urlsplit(base_url).netloc}: http:// would show it to everybody "
        f"on the way. Use https://, or {remedy} if the server wants no key."
    )
