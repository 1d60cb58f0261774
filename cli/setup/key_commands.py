"""`callboard keys` and its options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ..parameters import Config, Data, Json, data_path

if TYPE_CHECKING:
    from .keys import KeyDesk

Provider = Annotated[str, Parameter(help="The provider's name, as in PROVIDER/MODEL.")]

keys = App(name="keys", help="Store, list and remove the keys of providers.")


Origin = Annotated[
    str | None, Parameter(help="For git: the server that it is for, like https://github.com.")
]


@keys.command(name="set")
def set_key(
    provider: Provider,
    /,
    *,
    origin: Origin = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Store a provider's key, encrypted; `git` stores the credential of a git server.

    It is asked for without being shown, or read from stdin when that is no terminal. It is never
    an argument: those stand in the shell's history and in the list of processes.
    """
    return _desk(config, data).put(provider, origin)


@keys.command(name="list")
def list_keys(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List who has a key, and where it comes from; never a key itself."""
    return _desk(config, data).show(json=json)


@keys.command
def remove(provider: Provider, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a provider's stored keys, of all its origins."""
    return _desk(config, data).remove(provider)


@keys.command
def rotate_master(*, config: Config = None, data: Data = None) -> int:
    """Make a new master key and encrypt every stored key anew with it."""
    import os

    from ...config.files import load_settings
    from ...runtime.disk.core_dumps import forbid_core_dumps
    from .keys import rotate_master as rotate

    forbid_core_dumps()
    return rotate(data_path(data), load_settings(config), os.environ)


def _desk(config: Path | None, data: Path | None) -> KeyDesk:
    import os

    from ...config.files import load_settings
    from ...runtime.disk.core_dumps import forbid_core_dumps
    from ..remote.call import serving_daemon
    from .keys import KeyDesk

    forbid_core_dumps()
    folder = data_path(data)
    if (daemon := serving_daemon(config, folder)) is not None:
        from ..remote.keys import RemoteKeys

        return KeyDesk(RemoteKeys(daemon))
    from ...providers.catalog.key_book import KeyBook

    return KeyDesk(KeyBook(folder, load_settings(config), os.environ))
