"""Who asks over a relay: named by the client's node, and judged by the owner with what that knows itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from ...config.keys.tokens import LOCAL_NAME, Credential, Credentials
from ...runtime.errors import AuthError
from ..connection.caller import Caller
from ..door.authentication import state_of
from .messages import Principal

LOOKS = 5
"""How often the tokens of the cluster are read for one that is not known here: it may have been made just now."""
LOOK_SECONDS = 0.1

_CREDENTIAL = msgspec.json.Decoder(Credential)


class TokenTable(Protocol):
    """The tokens of all nodes."""

    async def tokens(self) -> dict[str, str]:
        """Return all credentials as JSON, by the digest of the token; a revoked one is empty."""
        ...


def principal_of(caller: Caller) -> Principal:
    """Return how the node of a client names it to another node."""
    credential = caller.credential
    return Principal(
        digest="" if credential.name == LOCAL_NAME else credential.digest,
        role=credential.role,
        is_page=caller.is_page,
        via=caller.via,
    )


class Principals:
    """Finds the credentials of clients of other nodes.

    Args:
        credentials: The file of this node, which has the tokens of all.
        shared: The database, which has those that are not in the file yet.
    """

    def __init__(self, credentials: Credentials, shared: TokenTable) -> None:
        self._credentials = credentials
        self._shared = shared
        self._seen: object = None
        self._known: Mapping[str, Credential] = {}
        self._gone: set[str] = set()  # revoked here, which the database may not know yet

    async def credential(self, principal: Principal, node_id: str) -> Credential:
        """Return what a client of another node may do here.

        Raises:
            AuthError: Its token is not known here, is revoked, or has fewer rights than the node says.
            StorageError: The tokens can't be read.
        """
        if not principal.digest:
            # The user of another node's daemon can make tokens that hold here.
            digest = f"user of node {node_id}"
            return Credential(name=LOCAL_NAME, role=principal.role, digest=digest, created_at_ms=0)
        found = (await self._listed()).get(principal.digest) or await self._look(principal.digest)
        if found is None:
            raise AuthError("the token of this client is not known at the owner of the session")
        if not found.role.includes(principal.role):
            raise AuthError("the token of this client has other rights now: connect again")
        return msgspec.structs.replace(found, role=principal.role)

    async def _listed(self) -> Mapping[str, Credential]:
        path: Path = self._credentials.path
        if (state := state_of(path)) != self._seen:
            listed = await trio.to_thread.run_sync(self._credentials.list)
            known = {each.digest: each for each in listed}
            self._gone = (self._gone | self._known.keys()) - known.keys()
            self._known, self._seen = known, state
        return self._known

    async def _look(self, digest: str) -> Credential | None:
        if digest in self._gone:
            return None
        for left in reversed(range(LOOKS)):
            text = (await self._shared.tokens()).get(digest)
            if text is not None:
                return _CREDENTIAL.decode(text) if text else None
            if left:
                await trio.sleep(LOOK_SECONDS)
        return None
