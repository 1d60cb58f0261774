"""What a command brings along to another one that is the daemon: its model and options, over each connection."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import trio

from ...client.client import Client, link_of
from ...config.settings import Settings
from ...providers.catalog.table import key_variables
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    DeadlineError,
    NetworkError,
    OverloadedError,
)
from ...runtime.wire.daemon import Reloaded
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import LendModel, SelectedModel
from ...runtime.wire.sessions import MAX_LEFT, GiveOptions

LOOK_SECONDS = 0.1
"""Time between two looks whether a session is free for this command."""


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


class Lender:
    """Brings a command's model and options along, again when the connection broke or the daemon is another one.

    Its keys are those of this command's environment. The daemon keeps them in memory, for these turns.

    Args:
        client: The connection.
        wish: The model.
        take: Called with the name by which turns get the model, and why it is that one.
        notice: Called with what no longer holds.
    """

    def __init__(
        self,
        client: Client,
        wish: LendModel,
        take: Callable[[SelectedModel], None],
        notice: Callable[[str], None],
    ) -> None:
        self._client = client
        self._wish = wish
        self._take = take
        self._notice = notice
        self._given: dict[str, GiveOptions] = {}
        link_of(client).prepare = self._again

    async def lend(self) -> None:
        """Bring the model along.

        Raises:
            CallboardError: There is no such model, or its key is missing.
        """
        self._lent(await self._client.request("model/lend", self._wish, SelectedModel))

    def own(self, session_id: str, input_id: str) -> None:
        """Note an input of this command: if another daemon takes over, its people answer there, too."""
        if (given := self._given.get(session_id)) is not None:
            left = (*given.left, input_id)[-MAX_LEFT:]
            self._given[session_id] = msgspec.structs.replace(given, left=left)

    async def give(self, given: GiveOptions) -> None:
        """Give what this command sends to a session options; wait for another that works in it."""
        is_said = False
        while True:
            try:
                await self._client.request("session/give_options", given, Nothing)
                break
            except OverloadedError as error:
                if error.kind != "taken":
                    raise
                if not is_said:
                    self._notice(f"{error}; this one waits until that has ended")
                is_said = True
            await trio.sleep(LOOK_SECONDS)
        self._given[given.session_id] = given

    def _lent(self, model: SelectedModel) -> None:
        self._wish = msgspec.structs.replace(self._wish, name=model.model)
        self._take(model)

    async def _again(self) -> None:
        """Bring everything along once more, ahead of what is asked over a new connection."""
        ask, before = link_of(self._client).request_first, self._wish.name
        try:
            self._lent(await ask("model/lend", self._wish, SelectedModel))
            for session_id, given in self._given.items():
                if given.options.model == before != self._wish.name:
                    options = msgspec.structs.replace(given.options, model=self._wish.name)
                    given = self._given[session_id] = msgspec.structs.replace(
                        given, options=options
                    )
                await ask("session/give_options", given, Nothing)
        except (NetworkError, DeadlineError, OverloadedError):
            raise
        except CallboardError as error:
            self._notice(
                f"the daemon is another one now, and has not what this command was given: {error}"
            )


def wish_of_command(
    settings: Settings,
    model: str | None,
    base_url: str | None,
    dialect: str | None,
    *,
    is_recorded: bool = False,
) -> LendModel:
    """Return the model that a command would use alone, with the keys of its environment."""
    keys = {name: os.environ.get(name, "") for name in key_variables(settings)}
    return LendModel(
        model=model,
        base_url=base_url,
        dialect=dialect,
        environ={name: key for name, key in keys.items() if key},
        is_recorded=is_recorded,
    )
