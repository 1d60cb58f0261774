"""Tokens of a cluster: each node keeps them in its file, as a daemon alone does, and the database tells all of changes.

Commands and clients change the file of one node. What came in there goes into the database, what is gone from there is
revoked for all, and the other way around. Which tokens the file had when this was done last is kept beside it:
so a token that was revoked while no daemon ran is not taken for one that another node made. A token that was revoked
once never comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from ...config.keys.tokens import MAX_CREDENTIALS, MAX_FILE_BYTES, Credential, Credentials
from ...config.private_file import read_private, write_private
from ...runtime.errors import CallboardError
from ...runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

KNOWN_NAME = "tokens.shared"
"""Beside the file of the tokens: the digests that it and the database had."""
LOOK_SECONDS = 0.25
"""Between two looks at the file: with what the others take, a revoked token is useless within a second."""

_CREDENTIAL = msgspec.json.Decoder(Credential)
_KNOWN = msgspec.json.Decoder(frozenset[str])


class TokenDatabase(Protocol):
    """What a node of a cluster does for its tokens.

    Attributes:
        tokens_changed: Set when another node may have changed them; who acts on it puts a new one there.
    """

    tokens_changed: trio.Event

    async def tokens(self) -> dict[str, str]:
        """Return all credentials as JSON, by the digest of the token; a revoked one is empty."""
        ...

    async def change_tokens(self, new: Mapping[str, str], revoked: Collection[str]) -> None:
        """Add credentials, unless they were revoked once, and revoke others."""
        ...


class SharedTokens:
    """Keeps the file of a node and the database of its cluster the same.

    Args:
        node: Its connection to the database, and what that tells.
        credentials: The file.
        state_of: Returns a value that changes when the file does.
        changed: Called when others have changed the file.
    """

    def __init__(
        self,
        node: TokenDatabase,
        credentials: Credentials,
        state_of: Callable[[Path], object],
        changed: Callable[[], None],
    ) -> None:
        self._node = node
        self._credentials = credentials
        self._state_of = state_of
        self._changed = changed
        self._known_path = credentials.path.with_name(KNOWN_NAME)

    async def run(self) -> None:
        """Bring changes over, both ways, until cancelled; what the database does not take is tried again."""
        seen: object = None
        is_away = False
        while True:
            told, state = self._node.tokens_changed, self._state_of(self._credentials.path)
            if state != seen or told.is_set():
                if told.is_set():
                    self._node.tokens_changed = trio.Event()
                try:
                    await self.bring_over()
                except CallboardError as error:
                    if not is_away:
                        logger.error("changes of tokens don't reach the other nodes yet: %s", error)
                    is_away, seen = True, None
                else:
                    is_away, seen = False, state
            with trio.move_on_after(LOOK_SECONDS):
                await self._node.tokens_changed.wait()

    async def bring_over(self) -> None:
        """Bring changes over once.

        Raises:
            CallboardError: The file or the database can't be read or written.
        """
        listed = await trio.to_thread.run_sync(self._credentials.list)
        known = await trio.to_thread.run_sync(self._read_known)
        here = {each.digest: each for each in listed}
        shared = await self._node.tokens()
        gone = [digest for digest in known - here.keys() if shared.get(digest)]
        new = [each for digest, each in here.items() if digest not in shared]
        if gone or new:
            encoded = {each.digest: msgspec.json.encode(each).decode() for each in new}
            await self._node.change_tokens(encoded, gone)
        wanted = [
            _CREDENTIAL.decode(text)
            for digest, text in shared.items()
            if text and digest not in here and digest not in gone
        ]
        revoked = {digest for digest in here if shared.get(digest) == ""}
        if wanted or revoked:
            await trio.to_thread.run_sync(self._credentials.merge, wanted, revoked)
            self._changed()
        both = (here.keys() - revoked) | {each.digest for each in wanted}
        if both != known:
            await trio.to_thread.run_sync(self._write_known, both)

    def _read_known(self) -> frozenset[str]:
        data = read_private(self._known_path, MAX_FILE_BYTES)
        try:
            return _KNOWN.decode(data) if data else frozenset()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return frozenset()

    def _write_known(self, digests: set[str]) -> None:
        known = sorted(digests)[:MAX_CREDENTIALS]
        write_private(self._known_path, msgspec.json.encode(known), replace=True)
