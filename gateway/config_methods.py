"""`config/…`, `settings/get` and `price/list`: what the daemon goes by."""

from __future__ import annotations

import trio

from ..config.prices import Prices
from ..config.setting_rows import SettingRows, setting_rows
from ..embedded import host_of
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


@methods.add("settings/get", Role.ADMIN)
def get_settings(caller: Caller, params: Nothing) -> SettingRows:
    """Every setting as it holds, without what is secret."""
    return setting_rows(host_of(caller.runtime).settings)


@methods.add("price/list", Role.OBSERVER)
async def list_prices(caller: Caller, params: Nothing) -> Prices:
    """What models cost, in US dollars for a million tokens: the operator's prices first."""
    return await trio.to_thread.run_sync(host_of(caller.runtime).plan.prices.rows)
