"""`callboard approve`, `deny` and `grants revoke`: they write on the store, and run nothing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import trio

from ...config.daemon_file import RunningDaemon, find_daemon
from ...config.files import config_folder, data_folder
from ...config.settings import Settings
from ...embedding.offline import open_desk
from ...runtime.disk.data_lock import DataInUse
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.messages import ApprovalAnswer, ApprovalRequest
from ...runtime.store.interface import ApprovalRow, SessionRow, StoreReader
from ...runtime.store.sqlite_store import open_disk_store
from ...tools.registry import ToolRegistry, builtin_tools
from ..exit_codes import ANSWERED
from ..log_file import start_logging, wants_log_on_terminal
from ..record_names import find_approval, find_grant
from ..show.question_text import ANSWERED_BY
from ..show.sessions import open_record
from ..terminal.escaping import safe_line
from .asked_under import AskedUnder, asked_under, configured, desk_services
from .edit import edited_at_terminal, needs_terminal
from .list import described, grant_line

MAX_DEPTH = 100
"""Sessions between one and the main one above it: far more than limits let there be."""
MAX_ALSO_WAITING = 10
"""Other questions that are named when one is answered."""


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says to a question."""

    decision: Literal["allow", "deny"]
    edits: bool = False
    arguments: str | None = None
    reason: str = ""
    remember: str | None = None
    pattern: str | None = None

    @property
    def command(self) -> str:
        """The command that says it."""
        return "approve" if self.decision == "allow" else "deny"

    def mistake(self) -> str | None:
        """What is wrong with the options, if something is."""
        if self.edits and self.arguments is not None:
            return "--edit and --arguments both say what the arguments are: leave one out"
        if self.pattern is not None and self.remember is None:
            return "--pattern goes with --remember: it says for which paths"
        return None


class AnswerDesk(Protocol):
    """Where answers go: the store's own desk, or a daemon."""

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """See `Desk.answer`."""
        ...

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """See `Desk.approval`."""
        ...

    async def revoke(self, grant_id: str, *, revoked_by: str) -> None:
        """See `Desk.revoke`."""
        ...


class ApprovalDesk:
    """Answers questions and takes remembered answers back.

    Args:
        data: The data folder.
        settings: The configuration.
        options: `--config` and `--data` as they were given, for the command that comes next.
    """

    def __init__(self, data: Path, settings: Settings, options: tuple[str, ...] = ()) -> None:
        self._data = data
        self._settings = settings
        self._options = options
        self._registry = ToolRegistry(builtin_tools())
        self._daemon: RunningDaemon | None = None

    def say(self, name: str, saying: Saying) -> int:
        """Answers the question that `name` means, and prints what was stored and what is next.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It has its answer, has expired, or another process has the store.
            ValidationError: The answer can't be taken; the question stays open.
        """
        return trio.run(self._say, name, saying)

    def revoke(self, name: str) -> int:
        """Takes a remembered answer back.

        Raises:
            NotFoundError: There is no such grant.
            ConflictError: It is revoked already, or another process has the store.
        """
        return trio.run(self._revoke, name)

    async def _say(self, name: str, saying: Saying) -> int:
        if saying.edits:
            needs_terminal()
        self._daemon = find_daemon(self._data)
        async with open_record(self._data) as reader:
            row = await find_approval(reader, name)
            _check_waits(row)
            line = await _line(reader, row.session_id)
            # A daemon judges by what itself has configured.
            asked = (
                await asked_under(reader, self._settings, row, line)
                if self._daemon is None
                else AskedUnder(agents={}, is_known=True)
            )
        self._check(saying, row, asked)
        async with self._open(asked) as (store, desk):
            # What has expired, or was taken back by the end of its process, is so by now.
            row = await find_approval(store, row.approval_id)
            _check_waits(row)
            arguments = saying.arguments
            if saying.edits:
                arguments = await _edited(desk, row, self._data)
            answer = ApprovalAnswer(
                decision=saying.decision,
                arguments=arguments,
                remember=saying.remember,
                reason=saying.reason,
                answered_by=ANSWERED_BY,
                pattern=saying.pattern,
            )
            try:
                await desk.answer(row.approval_id, answer)
            except ValidationError as error:
                raise ValidationError(
                    f"{str(error).rstrip('.')}. Nothing was answered: {row.approval_id} still "
                    "waits.",
                    field=error.field,
                ) from error
            sys.stdout.write(await self._told(store, row, asked, line[-1].session_id))
        return ANSWERED

    async def _revoke(self, name: str) -> int:
        async with open_record(self._data) as reader:
            grant = await find_grant(reader, name)
        if grant.revoked_at_ms is not None:
            raise ConflictError(f"The grant {grant.grant_id} is revoked already.")
        self._daemon = find_daemon(self._data)
        async with self._open(configured(self._settings)) as (store, desk):
            await desk.revoke(grant.grant_id, revoked_by=ANSWERED_BY)
            grant = await find_grant(store, grant.grant_id)
        sys.stdout.write(grant_line(grant))
        sys.stdout.write("Such calls follow the policy again: they run, ask or are denied.\n")
        return ANSWERED

    def _check(self, saying: Saying, row: ApprovalRow, asked: AskedUnder) -> None:
        """What the record alone can't answer is refused before anything is opened."""
        tool = safe_line(row.tool)
        changes = saying.edits or saying.arguments is not None
        if self._daemon is not None or (not changes and saying.remember is None):
            return
        what = "its arguments can be changed" if changes else "an answer can be remembered"
        problem = asked.problem if changes else ""
        if self._registry.get(row.tool) is None:
            problem = f"{tool} is a tool of another program, and unknown here"
        if problem:
            raise ValidationError(
                f"{problem}: {what} by the program that has the session, not here. "
                f"{row.approval_id} still waits; it can be answered as it was asked."
            )

    @asynccontextmanager
    async def _open(self, asked: AskedUnder) -> AsyncGenerator[tuple[StoreReader, AnswerDesk]]:
        if self._daemon is not None:
            from ..remote.approvals import open_remote_desk  # here: mostly no daemon runs

            async with open_record(self._data) as reader, open_remote_desk(self._daemon) as there:
                yield reader, there
            return
        try:
            store = await open_disk_store(self._data)
        except DataInUse as error:
            raise ConflictError(
                f"{self._data} is in use by {error.holder}, and only that one takes answers now: "
                "give yours there (at its terminal, or in its program), or stop it and come back. "
                "Nothing was changed."
            ) from error
        start_logging(self._data, verbose=wants_log_on_terminal())
        forbidden = (self._data, config_folder())
        services = desk_services(store, self._settings, self._registry, asked, forbidden)
        try:
            async with open_desk(store, services) as desk:
                yield store, desk
        finally:
            with trio.CancelScope(shield=True):
                await store.aclose()

    # ── what is told ─────────────────────────────────────────────────────────────────────────────

    async def _told(
        self, store: StoreReader, row: ApprovalRow, asked: AskedUnder, main_id: str
    ) -> str:
        """The question with its answer, what is remembered, what else waits, and what is next."""
        row = await find_approval(store, row.approval_id)
        lines = [described(row)]
        lines += [
            f"remembered: {grant_line(grant)}"
            for grant in await store.grants()
            if grant.approval_id == row.approval_id
        ]
        waiting = await store.approvals(state="waiting")
        if row.state == "revised":
            again = next((each for each in waiting if each.call_id == row.call_id), None)
            lines.append(
                f"The changed arguments make it more dangerous than what was asked about: "
                f"{_asked_again(again)}\n"
            )
        elif row.state == "allowed" and asked.warning:
            lines.append(f"{asked.warning}\n")
        others = [each.approval_id for each in waiting if each.session_id == row.session_id]
        if others:
            more = ", …" if len(others) > MAX_ALSO_WAITING else ""
            lines.append(f"This session also asks: {', '.join(others[:MAX_ALSO_WAITING])}{more}\n")
        lines.append(f"Next: {self._next(main_id, row, asked)}\n")
        return "".join(lines)

    def _next(self, main_id: str, row: ApprovalRow, asked: AskedUnder) -> str:
        if self._daemon is not None:
            return f"the daemon goes on with it; `callboard attach {main_id}` shows that"
        if asked.unknown or self._registry.get(row.tool) is None:
            return "the program that has the session goes on with it (session.resume())"
        preset = ("--policy", asked.preset) if asked.preset else ()
        words = ["callboard", "run", "--continue", "--session", main_id, *preset]
        return shlex.join([*words, *self._options])


def options_for(config: Path | None, data: Path | None) -> tuple[str, ...]:
    """The options that a later command needs to find the same files."""
    named = [] if config is None else ["--config", str(config)]
    if data is not None and data.expanduser().absolute() != data_folder():
        named += ["--data", str(data)]
    return tuple(named)


async def _edited(desk: AnswerDesk, row: ApprovalRow, folder: Path) -> str:
    """What a person makes of the arguments of a question."""
    request = await desk.approval(row.approval_id)

    async def consider(arguments: str) -> ApprovalRequest:
        return await desk.approval(row.approval_id, arguments=arguments)

    return await edited_at_terminal(row, request, folder, consider)


def _check_waits(row: ApprovalRow) -> None:
    if row.state == "waiting":
        return
    by = f" by {safe_line(row.answered_by)}" if row.answered_by else ""
    raise ConflictError(
        f"The question {row.approval_id} is not open: it is {row.state}{by}. "
        f"`callboard approvals {row.approval_id}` shows it."
    )


def _asked_again(again: ApprovalRow | None) -> str:
    if again is None:
        return "when the session goes on, it is asked again, as a question of its own."
    return f"it is asked again as {again.approval_id}."


async def _line(reader: StoreReader, session_id: str) -> list[SessionRow]:
    """The session and those above it; the last one is the main one, which a person goes on with."""
    line: list[SessionRow] = []
    above: str | None = session_id
    while above is not None and len(line) < MAX_DEPTH:
        row = await reader.session(above)
        if row is None:
            raise NotFoundError(f"The session {above} is gone.")
        line.append(row)
        above = row.parent_id
    return line
