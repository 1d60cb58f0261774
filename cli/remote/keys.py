"""Keys by way of the daemon, which uses another one from its next request on."""

from __future__ import annotations

from ...config.daemon_file import RunningDaemon
from ...runtime.redaction import Secret
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import KeyOwner, KeyPlace, Keys, KeysRemoved, KeyStored, SetKey
from .call import ask_daemon


class RemoteKeys:
    """A `KeyKeeping`."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self._daemon = daemon

    def keys(self) -> Keys:
        """See `KeyKeeping`."""
        return ask_daemon(self._daemon, "key/list", Nothing(), Keys)

    def place(self, name: str, where: str | None) -> KeyPlace:
        """See `KeyKeeping`."""
        return ask_daemon(self._daemon, "key/place", KeyOwner(name, where), KeyPlace)

    def put(self, name: str, where: str | None, key: Secret) -> KeyStored:
        """See `KeyKeeping`."""
        params = SetKey(name, key.reveal(), where)
        return ask_daemon(self._daemon, "provider/set_key", params, KeyStored)

    def remove(self, name: str) -> KeysRemoved:
        """See `KeyKeeping`."""
        return ask_daemon(self._daemon, "key/remove", KeyOwner(name), KeysRemoved)
