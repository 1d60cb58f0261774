"""The upkeep of a daemon, as a client does it: configuration, roots, tokens, backups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from .client_files import Asking
from .runtime.wire.backup import BackupMade
from .runtime.wire.configuration import Reloaded
from .runtime.wire.nothing import Nothing
from .runtime.wire.roles import Role
from .runtime.wire.tokens import NamedToken, NewToken, TokenRow, Tokens, TokenText
from .runtime.wire.workspaces import Root, Roots

if TYPE_CHECKING:  # what a request needs of these is imported when it is made
    from .config.prices import PriceRow
    from .config.setting_rows import SettingRow


class ClientTokens:
    """`Client.tokens`: who may connect; takes an administrator."""

    def __init__(self, client: Asking) -> None:
        self._client = client

    async def list(self) -> Sequence[TokenRow]:
        """The tokens there are, the oldest first; not what they are."""
        return (await self._client.request("token/list", Nothing(), Tokens)).tokens

    async def create(
        self,
        name: str,
        role: Role | Literal["observer", "operator", "approver", "admin"],
        *,
        agents: Iterable[str] | None = None,
        sessions: Iterable[str] | None = None,
    ) -> str:
        """Makes a token and gives it, this once.

        Args:
            name: What it is called from then on.
            role: What it may do.
            agents: The agents whose sessions it knows of; all by default.
            sessions: The sessions that it knows of, by id; all by default.
        """
        params = NewToken(
            name=name,
            role=Role(role),
            agents=None if agents is None else tuple(agents),
            sessions=None if sessions is None else tuple(sessions),
        )
        return (await self._client.request("token/create", params, TokenText)).token

    async def rotate(self, name: str) -> str:
        """Another token in the place of one, whose connections end."""
        return (await self._client.request("token/rotate", NamedToken(name), TokenText)).token

    async def revoke(self, name: str) -> None:
        """Ends a token, and its connections."""
        await self._client.request("token/revoke", NamedToken(name), Nothing)


class ClientUpkeep:
    """`Client.upkeep`: what an administrator does for a daemon that runs."""

    def __init__(self, client: Asking) -> None:
        self._client = client

    async def reload(self) -> Reloaded:
        """Has the configuration read again, whole or not at all."""
        return await self._client.request("config/reload", Nothing(), Reloaded)

    async def settings(self) -> Sequence[SettingRow]:
        """Every setting as it holds, without what is secret."""
        from .config.setting_rows import SettingRows

        return (await self._client.request("settings/get", Nothing(), SettingRows)).settings

    async def prices(self) -> Sequence[PriceRow]:
        """What models cost, in US dollars for a million tokens."""
        from .config.prices import Prices

        return (await self._client.request("price/list", Nothing(), Prices)).prices

    async def roots(self) -> Sequence[str]:
        """The folders below which sessions may work."""
        return (await self._client.request("root/list", Nothing(), Roots)).roots

    async def add_root(self, path: str) -> Sequence[str]:
        """Lets sessions work below one more folder, until the daemon ends."""
        return (await self._client.request("root/add", Root(path), Roots)).roots

    async def backup(self) -> BackupMade:
        """Copies the store into a new file of the daemon's data folder, while work goes on."""
        return await self._client.request("store/backup", Nothing(), BackupMade)
