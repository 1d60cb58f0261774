"""The operating system's keyring as the place of the master key (`pip install 'callboard[keyring]'`).

Only a real one: the library falls back to backends that keep nothing, or that keep plain text in a
file, when a desktop has none. Those are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from importlib import import_module
from typing import Any

from ...runtime.errors import AuthError
from .sealing import MasterKey

SERVICE = "callboard"

UNREAL = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
"""What keeps nothing, or keeps it in a file of its own that is weaker than ours."""

CHAINER = "keyring.backends.chainer"


class KeyringPlace:
    """Two entries of the service `callboard`; see `KeyPlace`."""

    def __init__(self, store_id: str) -> None:
        self._current = f"master-{store_id}"
        self._next = f"master-{store_id}-next"
        self.name = f"the system's keyring (service {SERVICE}, user {self._current})"
        self._found: Any = None

    def keys(self) -> list[MasterKey]:
        """See `KeyPlace`."""
        found = [self._read(self._next), self._read(self._current)]
        return [key for key in reversed(found) if key is not None]

    def make(self) -> MasterKey:
        """See `KeyPlace`. The store's lock keeps two programs from making one each."""
        return self._write(self._current, MasterKey.generate())

    def begin(self) -> MasterKey:
        """See `KeyPlace`."""
        return self._write(self._next, MasterKey.generate())

    def finish(self) -> None:
        """See `KeyPlace`."""
        following = self._read(self._next)
        assert following is not None
        self._write(self._current, following)
        backend = self._backend
        with _mapped(self.name):
            backend.delete_password(SERVICE, self._next)

    def _read(self, user: str) -> MasterKey | None:
        backend = self._backend
        with _mapped(self.name):
            text = backend.get_password(SERVICE, user)
        if text is None:
            return None
        try:
            return MasterKey.parse(text.encode())
        except ValueError as error:
            raise AuthError(
                f"The stored keys are locked: {self.name} holds no master key: {error}."
            ) from error

    def _write(self, user: str, key: MasterKey) -> MasterKey:
        backend = self._backend
        with _mapped(self.name):
            backend.set_password(SERVICE, user, key.text.decode().strip())
        read = self._read(user)
        if read is None or read.key_id != key.key_id:
            raise AuthError(f"{self.name} did not keep what was put there. Use another place.")
        return read

    @property
    def _backend(self) -> Any:
        if self._found is None:
            self._found = _real_backend()
        return self._found


def _real_backend() -> Any:
    try:
        keyring = import_module("keyring")
    except ImportError as error:
        raise AuthError(
            'The master key is configured to be in the system\'s keyring (master = "keyring"), '
            "which needs a library: pip install 'callboard[keyring]'."
        ) from error
    chosen = keyring.get_keyring()
    # Several at once stand behind one that tries them in turn; the first real one is it, always.
    backends = chosen.backends if type(chosen).__module__ == CHAINER else [chosen]
    for backend in backends:
        if not type(backend).__module__.startswith(UNREAL):
            return backend
    names = ", ".join(type(backend).__module__ for backend in backends) or "none"
    raise AuthError(
        f'The master key is configured to be in the system\'s keyring (master = "keyring"), and '
        f"there is no real one here (found: {names}). Start one, or choose another place under "
        "[keys]."
    )


@contextlib.contextmanager
def _mapped(name: str) -> Generator[None]:
    errors = import_module("keyring.errors")
    try:
        yield
    except errors.KeyringError as error:
        raise AuthError(
            f"The stored keys are locked: {name} refused ({type(error).__name__}). Unlock it, and "
            "try again."
        ) from error
