"""Who asks something of the daemon: a credential and what it may see; over a websocket, its subscriptions too."""

from __future__ import annotations

from collections.abc import Callable

from ...config.keys.tokens import LOCAL_NAME, Credential
from ...embedding.runtime import Runtime, host_of
from ...runtime.definitions import GENERAL_AGENT
from ...runtime.errors import ConflictError, NotFoundError, PermissionRefused
from ...runtime.identity import RequestKey
from ...runtime.store.lists import Visibility
from ...runtime.store.rows import SessionRow
from ...runtime.wire.fields import Role
from ..shared.state import DaemonState
from .subscriptions import Subscriptions

LOCAL_CALLER = "terminal"
"""The name on record of commands of this user, with or without a daemon."""
CONSOLE_CALLER = "console"
"""The name on record of this user's own pages of the web console."""


class Requester:
    """Who asks, whatever the protocol.

    Attributes:
        daemon: What it acts on.
        credential: Whose role and limits hold.
        via: The protocol, where that is not callboard's own, like `openai`.
        is_relayed: Whether it comes from another node of the cluster, which asks for its client.
    """

    is_relayed = False

    def __init__(self, daemon: DaemonState, credential: Credential, via: str = "") -> None:
        self.daemon = daemon
        self.credential = credential
        self.via = via

    @property
    def runtime(self) -> Runtime:
        """The runtime of the daemon."""
        return self.daemon.runtime

    @property
    def name(self) -> str:
        """The name on record."""
        return self._called(self.credential.name)

    @property
    def sender(self) -> str:
        """Whose requests with a key these are; the same at each node of a cluster."""
        return self._called(self.credential.sender)

    def _called(self, name: str) -> str:
        is_local = self.daemon.is_local(self.credential)
        if self.is_relayed:  # of the user of another node's daemon
            is_local = self.credential.name == LOCAL_NAME
        name = LOCAL_CALLER if is_local else f"token:{name}"
        return f"{name} via {self.via}" if self.via else name

    @property
    def is_limited(self) -> bool:
        """Whether the credential is limited to some agents or sessions."""
        return self.credential.agents is not None or self.credential.sessions is not None

    @property
    def visible(self) -> Visibility:
        """The agents and sessions that the credential may see."""
        return Visibility(agents=self.credential.agents, session_ids=self.credential.sessions)

    def knows_agent(self, name: str) -> bool:
        """Return whether the credential may know of an agent."""
        return self.credential.agents is None or name in self.credential.agents

    def sees(self, session: SessionRow) -> bool:
        """Return whether the credential may know of a session.

        Whose agent is gone goes on with General Assistant, and a token for the old one is none for that.
        """
        agents = host_of(self.runtime).agents
        agent = session.agent if session.agent in agents else GENERAL_AGENT
        return self.credential.sees(session.session_id, agent)

    async def session(self, session_id: str) -> SessionRow:
        """A session that it may know of.

        Raises:
            NotFoundError: There is none of that id, for this caller.
        """
        row = await self.runtime.store.session(session_id)
        if row is None or not self.sees(row):
            raise NotFoundError(f"there is no session {session_id}")
        return row

    def check_role(self, role: Role) -> None:
        """Raise `PermissionRefused` unless the credential has this role."""
        if not self.credential.role.includes(role):
            raise PermissionRefused(
                f"this takes the role {role}; this token has {self.credential.role}"
            )


class Caller(Requester):
    """Who calls a method.

    Args:
        subscriptions: The connection's; `None` for a request that came over another protocol.
        via: That protocol.

    Attributes:
        request: What makes the request be done once, when it has a key.
        is_page: Whether a page of the web console asks.
    """

    def __init__(
        self,
        daemon: DaemonState,
        credential: Credential,
        subscriptions: Subscriptions | None,
        request: RequestKey | None = None,
        *,
        via: str = "",
        is_page: bool = False,
        is_relayed: bool = False,
    ) -> None:
        super().__init__(daemon, credential, via)
        self.is_relayed = is_relayed
        self.request = request
        self.is_page = is_page
        self._subscriptions = subscriptions
        self._afterwards: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """The name on record."""
        is_own = self.is_page and self.credential.name == LOCAL_NAME
        return CONSOLE_CALLER if is_own else super().name

    async def check_here(self, session_id: str) -> None:
        """Have a session run at this node; raise `ConflictError` if another one has it.

        For what hangs on this very connection, which no other node can have.
        """
        if (node := host_of(self.runtime).plan.node) is not None:
            await node.claim(session_id)

    @property
    def subscriptions(self) -> Subscriptions:
        """The connection's subscriptions; raise `ConflictError` where there is no connection."""
        if self._subscriptions is None:
            raise ConflictError("this takes a connection over the websocket, which stays")
        return self._subscriptions

    def has_at_end(self, name: str) -> bool:
        """Whether an action of this name is done when the connection ends; never where there is none."""
        return self._subscriptions is not None and self._subscriptions.has_at_end(name)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Leave an action for after the answer, which is in the outbox by then."""
        self._afterwards.append(action)

    def answered(self) -> None:
        """Run the actions that were left for after the answer."""
        while self._afterwards:
            self._afterwards.pop(0)()
