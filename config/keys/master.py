"""Where the master key of stored keys is: a systemd credential, the system's keyring, or a file.

Only the configured place is looked at: when the key is not there, that is an error, and no other place
stands in for it. A passphrase would not do, since nobody types one when a server starts.

A rotation has two keys for a while. `begin` puts the next one beside the current one, all rows are
sealed with it in one transaction, and `finish` makes it the current one. Wherever that is cut off, one
of the two opens all rows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ...runtime.disk.private_folder import sync_path
from ...runtime.errors import AuthError, StorageError
from ..private_file import make_private_folder, read_private, write_private
from ..settings import MasterSource
from .sealing import MasterKey

MAX_FILE_BYTES = 256
"""A key is 44 characters of base64; a larger file is something else."""

CREDENTIAL_NAME = "callboard-key"

SERVICE = "callboard"
"""The keyring's service."""
UNREAL = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
"""Backends that keep nothing, or keep it in a file of their own that is weaker than ours."""
CHAINER = "keyring.backends.chainer"


class MasterKeyPlace:
    """Where the master key of one store of keys is. Everything blocks.

    Args:
        current: Names the current key there.
        following: Names the next key of a rotation.

    Attributes:
        name: What errors and people call the place.
    """

    def __init__(self, name: str, current: str, following: str) -> None:
        self.name = name
        self._current = current
        self._next = following

    def keys(self) -> list[MasterKey]:
        """Return the current key, if there is one, then the next key of a rotation.

        Raises:
            AuthError: A key is there and must not or can't be used.
        """
        # The next one is read first: should a rotation end between the two, it is found twice.
        found = [self._read(self._next), self._read(self._current)]
        return [key for key in reversed(found) if key is not None]

    def make(self) -> MasterKey:
        """Make the first key, or return the one that somebody else made meanwhile."""
        raise NotImplementedError

    def begin(self) -> MasterKey:
        """Put the next key in place, durably; one that was never used is overwritten."""
        raise NotImplementedError

    def finish(self) -> None:
        """Make the next key the current one, durably; the old one is gone."""
        raise NotImplementedError

    def _read(self, name: str) -> MasterKey | None:
        raise NotImplementedError


class FilePlace(MasterKeyPlace):
    """A file of mode 0600 in the configuration folder, away from the data that it protects."""

    def __init__(self, folder: Path, data: Path, store_id: str) -> None:
        self._folder = folder
        self._data = data
        path = str(folder / f"master-{store_id}.key")
        super().__init__(path, path, str(folder / f"master-{store_id}.next.key"))

    def keys(self) -> list[MasterKey]:
        """See `MasterKeyPlace`."""
        self._check_apart()
        return super().keys()

    def make(self) -> MasterKey:
        """See `MasterKeyPlace`."""
        self._check_apart()
        make_private_folder(self._folder)
        with contextlib.suppress(FileExistsError):
            write_private(Path(self._current), MasterKey.generate().text, replace=False)
        key = self._read(self._current)
        assert key is not None
        return key

    def begin(self) -> MasterKey:
        """See `MasterKeyPlace`."""
        key = MasterKey.generate()
        write_private(Path(self._next), key.text, replace=True)
        return key

    def finish(self) -> None:
        """See `MasterKeyPlace`."""
        try:
            Path(self._next).replace(self._current)
            sync_path(self._folder)
        except OSError as error:
            raise StorageError(
                f"{self._next} can't take the place of {self._current}: {error.strerror}. The stored "
                "keys are sealed with the former: leave both where they are, and rotate again."
            ) from error

    def _read(self, name: str) -> MasterKey | None:
        try:
            data = read_private(Path(name), MAX_FILE_BYTES)
        except StorageError as error:
            raise AuthError(f"The stored keys are locked: {error}") from error
        return None if data is None else _parsed(data, name)

    def _check_apart(self) -> None:
        folder, data = os.path.realpath(self._folder), os.path.realpath(self._data)
        if os.path.commonpath([folder, data]) == data:
            raise AuthError(
                f"The master key would be at {self._current}, inside the data folder {data} that it "
                "protects: a copy of the data would hold both. Choose other folders, or set "
                'master = "keyring" under [keys].'
            )


class CredentialPlace(MasterKeyPlace):
    """A credential that systemd decrypted for this service (`LoadCredentialEncrypted=`).

    callboard can't write one. To rotate, the operator adds `callboard-key-next`, lets
    `callboard keys rotate-master` run with both, and then makes it the `callboard-key`.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        name = f"the systemd credential {CREDENTIAL_NAME}"
        super().__init__(name, CREDENTIAL_NAME, f"{CREDENTIAL_NAME}-next")

    def make(self) -> MasterKey:
        """Raise `AuthError`: only the operator can make it."""
        raise AuthError(
            f"There is no {self.name}: $CREDENTIALS_DIRECTORY does not hold it. Give it to the "
            f"service (LoadCredentialEncrypted={CREDENTIAL_NAME}:FILE); 32 random bytes or their "
            "base64 text will do."
        )

    def begin(self) -> MasterKey:
        """Return the operator's next key; raise `AuthError` when there is none."""
        following = self._read(self._next)
        if following is None:
            raise AuthError(
                f"A systemd credential is the operator's to make: add {self._next} to the "
                "service and rotate again."
            )
        return following

    def finish(self) -> None:
        """Do nothing: the operator renames credentials."""

    def _read(self, name: str) -> MasterKey | None:
        if not self._folder:
            return None
        path = Path(self._folder, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuthError(
                f"The stored keys are locked: {path} can't be read: {error.strerror}."
            ) from error
        with open(descriptor, "rb") as file:
            return _parsed(file.read(MAX_FILE_BYTES + 1), str(path))


class KeyringPlace(MasterKeyPlace):
    """Two entries of the system's keyring (`pip install 'callboard[keyring]'`).

    Only a real one: without a desktop the library falls back to backends that keep nothing, or that
    keep plain text in a file. Those are refused.
    """

    def __init__(self, store_id: str) -> None:
        current = f"master-{store_id}"
        name = f"the system's keyring (service {SERVICE}, user {current})"
        super().__init__(name, current, f"{current}-next")
        self._found: Any = None

    def make(self) -> MasterKey:
        """See `MasterKeyPlace`. The store's lock keeps two programs from making one each."""
        return self._write(self._current, MasterKey.generate())

    def begin(self) -> MasterKey:
        """See `MasterKeyPlace`."""
        return self._write(self._next, MasterKey.generate())

    def finish(self) -> None:
        """See `MasterKeyPlace`."""
        following = self._read(self._next)
        assert following is not None
        self._write(self._current, following)
        with self._backend() as backend:
            backend.delete_password(SERVICE, self._next)

    def _read(self, name: str) -> MasterKey | None:
        with self._backend() as backend:
            text = backend.get_password(SERVICE, name)
        return None if text is None else _parsed(text.encode(), self.name)

    def _write(self, user: str, key: MasterKey) -> MasterKey:
        with self._backend() as backend:
            backend.set_password(SERVICE, user, key.text.decode().strip())
        read = self._read(user)
        if read is None or read.key_id != key.key_id:
            raise AuthError(f"{self.name} did not keep what was put there. Use another place.")
        return read

    @contextlib.contextmanager
    def _backend(self) -> Generator[Any]:
        """The real keyring, found once; raises `AuthError` when there is none or it refuses."""
        if self._found is None:
            self._found = _real_backend()
        errors = import_module("keyring.errors")
        try:
            yield self._found
        except errors.KeyringError as error:
            raise AuthError(
                f"The stored keys are locked: {self.name} refused ({type(error).__name__}). Unlock "
                "it, and try again."
            ) from error


def key_place(
    source: MasterSource | None,
    *,
    store_id: str,
    config: Path,
    data: Path,
    environ: Mapping[str, str],
) -> MasterKeyPlace:
    """Return the configured place; without one, the credential if the process has it, else a file.

    Args:
        source: `[keys] master`.
        store_id: Names the store of keys, so that two data folders don't share a master key.
        config: The configuration folder.
        data: The data folder.
        environ: Says where systemd's credentials are.
    """
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    if source is None:
        has_one = credentials and os.path.lexists(Path(credentials, CREDENTIAL_NAME))
        source = MasterSource.CREDENTIAL if has_one else MasterSource.FILE
    match source:
        case MasterSource.CREDENTIAL:
            return CredentialPlace(credentials)
        case MasterSource.KEYRING:
            return KeyringPlace(store_id)
        case MasterSource.FILE:
            return FilePlace(config, data, store_id)


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


def _parsed(data: bytes, where: str) -> MasterKey:
    try:
        return MasterKey.parse(data)
    except ValueError as error:
        raise AuthError(
            f"The stored keys are locked: {where} holds no master key: {error}. Put the right one "
            "back, from a backup."
        ) from error
