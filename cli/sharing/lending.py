"""What a command does as it joins another one that is the daemon: its rules are read again, its model comes along."""

from __future__ import annotations

import os

from ...client.client import Client
from ...config.settings import Settings
from ...providers.catalog.table import key_variables
from ...runtime.errors import ConflictError
from ...runtime.wire.daemon import Reloaded
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import LendModel, SelectedModel


async def read_rules(client: Client) -> None:
    """Have the daemon go by the configuration as it stands now, as this command would alone.

    Raises:
        ConflictError: Something changed in it that a runtime takes only as it begins.
        CallboardError: It can't be used.
    """
    reloaded = await client.request("config/reload", Nothing(), Reloaded)
    if waiting := reloaded.state.waiting:
        raise ConflictError(
            f"the command that has the sessions began before the configuration was changed ({', '.join(waiting)}), "
            "which holds from the next start. Wait until it has ended, or use another data folder with --data."
        )


async def lent_model(
    client: Client,
    settings: Settings,
    model: str | None,
    base_url: str | None,
    dialect: str | None,
    is_recorded: bool = False,
) -> SelectedModel:
    """Return the name by which turns get the model that this command would use alone, and why it is that one.

    Its keys are those of this command's environment. The daemon keeps them in memory, for these turns.

    Raises:
        CallboardError: There is no such model, or its key is missing.
    """
    keys = {name: os.environ.get(name, "") for name in key_variables(settings)}
    params = LendModel(
        model=model,
        base_url=base_url,
        dialect=dialect,
        environ={name: key for name, key in keys.items() if key},
        is_recorded=is_recorded,
    )
    return await client.request("model/lend", params, SelectedModel)
