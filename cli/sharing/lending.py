"""A command brings its own model along when another command is the daemon."""

from __future__ import annotations

import os

from ...client.client import Client
from ...config.settings import Settings
from ...providers.catalog.table import key_variables
from ...runtime.wire.providers import LendModel, SelectedModel


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
