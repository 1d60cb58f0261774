"""`config/…`: the daemon's settings."""

from __future__ import annotations

from ..runtime.errors import ConflictError
from ..runtime.wire.configuration import Reloaded
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable, Nothing

methods = MethodTable()


@methods.add("config/reload", Role.ADMIN, is_slow=True)
async def reload(caller: Caller, params: Nothing) -> Reloaded:
    """Reads the configuration again, whole or not at all, as SIGHUP does."""
    daemon = caller.daemon
    if daemon.configuration is None:
        raise ConflictError(
            "this server belongs to a program, which has its settings: there is no file to read"
        )
    return await daemon.configuration.reload(daemon.runtime, daemon.take_settings)
