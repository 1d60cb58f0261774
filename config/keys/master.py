"""Where the master key of stored keys is: a systemd credential, the system's keyring, or a file.

The place that is configured is the only one that is looked at: what is missing there is an error,
and never made up for by another place. A passphrase is not among them: nobody types one when a
server starts.

A rotation has two keys for a while, the current one and the next. `begin` puts the next one
beside the current one, the rows are sealed anew in one transaction, and `finish` makes it the current
one. Wherever that is cut off, one of the two opens all rows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ...runtime.disk.private_folder import sync_path
from ...runtime.errors import AuthError, StorageError
from ..private_file import make_private_folder, read_private, write_private
from ..settings import MasterSource
from .sealing import MasterKey

MAX_FILE_BYTES = 256
"""A key is 44 characters of base64; what is larger is something else."""

CREDENTIAL_NAME = "callboard-key"
NEXT_CREDENTIAL_NAME = "callboard-key-next"

SERVICE = "callboard"

UNREAL = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt")
"""What keeps nothing, or keeps it in a file of its own that is weaker than ours."""

CHAINER = "keyring.backends.chainer"


class MasterKeyPlace(Protocol):
    """Where the master key of one store of keys is. Everything blocks.

    Attributes:
        name: What errors and people call it.
    """

    name: str

    def keys(self) -> list[MasterKey]:
        """The current key, if there is one, and behind it the next one of a rotation.

        Raises `AuthError` when what is there is not to be used.
        """
        ...

    def make(self) -> MasterKey:
        """Makes the first key; one that somebody else made meanwhile is taken instead."""
        ...

    def begin(self) -> MasterKey:
        """Puts the next key in place, durably; one that was never used is overwritten."""
        ...

    def finish(self) -> None:
        """Makes the next key the current one, durably; the old one is gone."""
        ...


class FilePlace:
    """A file of mode 0600 in the configuration folder, away from the data that it protects."""

    def __init__(self, folder: Path, data: Path, store_id: str) -> None:
        self._folder = folder
        self._data = data
        self._path = folder / f"master-{store_id}.key"
        self._next = folder / f"master-{store_id}.next.key"
        self.name = str(self._path)

    def keys(self) -> list[MasterKey]:
        """See `MasterKeyPlace`."""
        self._check_apart()
        # The next one first: should a rotation end between the two reads, it is found twice.
        found = [self._read(self._next), self._read(self._path)]
        return [key for key in reversed(found) if key is not None]

    def make(self) -> MasterKey:
        """See `MasterKeyPlace`."""
        self._check_apart()
        make_private_folder(self._folder)
        with contextlib.suppress(FileExistsError):
            write_private(self._path, MasterKey.generate().text, replace=False)
        key = self._read(self._path)
        assert key is not None
        return key

    def begin(self) -> MasterKey:
        """See `MasterKeyPlace`."""
        key = MasterKey.generate()
        write_private(self._next, key.text, replace=True)
        return key

    def finish(self) -> None:
        """See `MasterKeyPlace`."""
        try:
            self._next.replace(self._path)
            sync_path(self._folder)
        except OSError as error:
            raise StorageError(
                f"{self._next} can't take the place of {self._path}: {error.strerror}. The stored "
                "keys are sealed with the former: leave both where they are, and rotate again."
            ) from error

    def _read(self, path: Path) -> MasterKey | None:
        try:
            data = read_private(path, MAX_FILE_BYTES)
        except StorageError as error:
            raise AuthError(f"The stored keys are locked: {error}") from error
        return None if data is None else _parsed(data, str(path))

    def _check_apart(self) -> None:
        folder, data = os.path.realpath(self._folder), os.path.realpath(self._data)
        if os.path.commonpath([folder, data]) == data:
            raise AuthError(
                f"The master key would be at {self._path}, inside the data folder {data} that it "
                "protects: a copy of the data would hold both. Choose other folders, or set "
                'master = "keyring" under [keys].'
            )


class CredentialPlace:
    """A credential that systemd decrypted for this service (`LoadCredentialEncrypted=`).

    callboard can't write one. To rotate, the operator adds `callboard-key-next`, lets
    `callboard keys rotate-master` run with both, and then makes it the `callboard-key`.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self.name = f"the systemd credential {CREDENTIAL_NAME}"

    def keys(self) -> list[MasterKey]:
        """See `MasterKeyPlace`."""
        found = [self._read(CREDENTIAL_NAME), self._read(NEXT_CREDENTIAL_NAME)]
        return [key for key in found if key is not None]

    def make(self) -> MasterKey:
        """It is the operator's to make; raises `AuthError`."""
        raise AuthError(
            f"There is no {self.name}: $CREDENTIALS_DIRECTORY does not hold it. Give it to the "
            f"service (LoadCredentialEncrypted={CREDENTIAL_NAME}:FILE); 32 random bytes or their "
            "base64 text will do."
        )

    def begin(self) -> MasterKey:
        """The operator's next key; raises `AuthError` when there is none, or it is in use."""
        following = self._read(NEXT_CREDENTIAL_NAME)
        if following is None:
            raise AuthError(
                f"A systemd credential is the operator's to make: add {NEXT_CREDENTIAL_NAME} to the "
                "service and rotate again."
            )
        return following

    def finish(self) -> None:
        """Nothing that callboard could do."""

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


class KeyringPlace:
    """Two entries of the service `callboard`; see `MasterKeyPlace`."""

    def __init__(self, store_id: str) -> None:
        self._current = f"master-{store_id}"
        self._next = f"master-{store_id}-next"
        self.name = f"the system's keyring (service {SERVICE}, user {self._current})"
        self._found: Any = None

    def keys(self) -> list[MasterKey]:
        """See `MasterKeyPlace`."""
        found = [self._read(self._next), self._read(self._current)]
        return [key for key in reversed(found) if key is not None]

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


def key_place(
    source: MasterSource | None,
    *,
    store_id: str,
    config: Path,
    data: Path,
    environ: Mapping[str, str],
) -> MasterKeyPlace:
    """The place that is configured; without one, the credential if the process has it, else a file.

    Args:
        source: `[keys] master`.
        store_id: Which store of keys, so that two data folders don't share a master key.
        config: The configuration folder.
        data: The data folder.
        environ: Where systemd says where credentials are.
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


def _parsed(data: bytes, where: str) -> MasterKey:
    try:
        return MasterKey.parse(data)
    except ValueError as error:
        raise AuthError(
            f"The stored keys are locked: {where} is no master key: {error}. Put the right one "
            "back, from a backup."
        ) from error
