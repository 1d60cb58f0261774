"""What a client asks about sessions beside prompts and events: lists, search, files, undo, use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from ..runtime.budget import Budget
from ..runtime.changes.undo_report import ChangedCall, UndoReport
from ..runtime.channel import UserQuestion
from ..runtime.definitions import Agent
from ..runtime.identity import new_id
from ..runtime.store.lists import Hit, SessionPage
from ..runtime.wire.approvals import CheckPolicy, ListQuestions, QuestionList
from ..runtime.wire.daemon import Agents, Changes, OneAgent, UndoChanges
from ..runtime.wire.fields import Nothing
from ..runtime.wire.sessions import (
    CancelCall,
    Cancelled,
    FindWords,
    GetUsage,
    Hits,
    ListSessions,
    NamedSessions,
    OneSession,
    Rename,
    RunAgain,
    SetAgent,
    SetBudget,
    SomeSessions,
    Ticket,
)
from .files import fetch_file, send_file

if TYPE_CHECKING:  # what a request needs of these is imported when it is made
    from ..config.usage_sums import UsageReport
    from ..runtime.wire.approvals import PolicyAnswer

Result = TypeVar("Result")


class SessionRequests(ABC):
    """The part of a client that is about sessions on record."""

    @abstractmethod
    async def request(
        self, method: str, params: msgspec.Struct, result: type[Result], *, key: str | None = None
    ) -> Result:
        """See `Client.request`."""

    async def find_sessions(
        self,
        query: str = "",
        *,
        agent: str | None = None,
        deleted: Literal["no", "also", "only"] = "no",
        include_children: bool = True,
        before: int | None = None,
        limit: int = 100,
    ) -> SessionPage:
        """A page of sessions, the latest activity first; its `next_before` begins the next page.

        Args:
            query: What title, preview or id hold.
            agent: Whose sessions.
            deleted: Whether deleted ones are left out, are among them, or are all.
            include_children: Also those that were delegated.
            before: The `next_before` of the page before.
            limit: How many at most.
        """
        params = ListSessions(
            query=query,
            agent=agent,
            deleted=deleted,
            include_children=include_children,
            before=before,
            limit=limit,
        )
        return await self.request("session/list", params, SessionPage)

    async def search(self, query: str, *, limit: int = 20) -> Sequence[Hit]:
        """Sessions in which all these words were said, with what stands around them."""
        return (
            await self.request("session/search", FindWords(query=query, limit=limit), Hits)
        ).hits

    async def rename(self, session_id: str, title: str) -> None:
        """Gives a session another title; no model replaces it."""
        await self.request("session/rename", Rename(session_id, title), Nothing)

    async def set_agent(self, session_ids: Iterable[str], agent: str) -> None:
        """Has another agent's configuration hold from the next turns of these sessions on."""
        await self.request("session/set_agent", SetAgent(tuple(session_ids), agent), Nothing)

    async def delete_sessions(self, session_ids: Iterable[str]) -> tuple[str, ...]:
        """Hides sessions and all below them, and ends what runs there; gives those it hid."""
        return await self._batch("session/delete", session_ids)

    async def restore_sessions(self, session_ids: Iterable[str]) -> tuple[str, ...]:
        """Takes deletions back; gives the sessions that are there again."""
        return await self._batch("session/restore", session_ids)

    async def purge_sessions(self, session_ids: Iterable[str]) -> tuple[str, ...]:
        """Removes deleted sessions for good, and all on record of them; takes an administrator."""
        return await self._batch("session/purge", session_ids)

    async def _batch(self, method: str, session_ids: Iterable[str]) -> tuple[str, ...]:
        return (
            await self.request(method, NamedSessions(tuple(session_ids)), SomeSessions)
        ).session_ids

    async def export_session(self, session_id: str) -> bytes:
        """A session and all below it as the JSON Lines of a file."""
        return await fetch_file(self, session_id)

    async def import_session(self, file: bytes, *, workspace: str | None = None) -> str:
        """Stores the sessions of such a file under new ids; gives the first one's.

        They work in `workspace`, below one of the daemon's roots, or in a folder of their own.
        """
        return await send_file(self, file, workspace)

    # ── the last turn once more ──────────────────────────────────────────────────────────────────

    async def retry(self, session_id: str, *, message_id: str | None = None) -> Ticket:
        """Runs the last turn again, which was not answered; see `Session.retry`."""
        return await self._again("session/retry", session_id, message_id)

    async def regenerate(self, session_id: str, *, message_id: str | None = None) -> Ticket:
        """Has the last turn answered anew; see `Session.regenerate`."""
        return await self._again("session/regenerate", session_id, message_id)

    async def _again(self, method: str, session_id: str, message_id: str | None) -> Ticket:
        params = RunAgain(session_id=session_id, message_id=message_id)
        return await self.request(method, params, Ticket, key=new_id("request"))

    # ── what happened in one, and what may ───────────────────────────────────────────────────────

    async def undo(
        self,
        session_id: str,
        *,
        call_id: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> UndoReport:
        """Takes back what calls changed in files, the latest first; see `Session.undo`.

        Args:
            session_id: Whose calls.
            call_id: One call, or the id of one undoing; all by default.
            force: Also what was changed since.
            dry_run: Only says what it would do.
        """
        params = UndoChanges(session_id=session_id, call_id=call_id, force=force, dry_run=dry_run)
        return await self.request("session/undo", params, UndoReport)

    async def changes(self, session_id: str) -> Sequence[ChangedCall]:
        """The calls whose changes of files can be undone, and what was, in their order."""
        return (await self.request("session/changes", OneSession(session_id), Changes)).changes

    async def cancel_call(self, session_id: str, call_id: str) -> bool:
        """Cancels one call whose tool runs; its turn goes on (`False`: it did not run)."""
        params = CancelCall(session_id=session_id, call_id=call_id)
        return (await self.request("call/cancel", params, Cancelled)).was_running

    async def check_policy(self, session_id: str, tool: str, arguments: str) -> PolicyAnswer:
        """Whether a call of a session would run, ask or be denied, and why; nothing runs.

        `arguments` is the text of a JSON object.
        """
        from ..runtime.wire.approvals import PolicyAnswer

        params = CheckPolicy(session_id=session_id, tool=tool, arguments=arguments)
        return await self.request("policy/check", params, PolicyAnswer)

    async def questions(self, *, session_id: str | None = None) -> Sequence[UserQuestion]:
        """The questions of models that wait for an answer, the oldest first."""
        params = ListQuestions(session_id=session_id)
        return (await self.request("question/list", params, QuestionList)).questions

    async def set_budget(self, session_id: str, budget: Budget | None) -> None:
        """Gives a session another budget from its next turn on; `None` is none of its own."""
        await self.request(
            "session/set_budget", SetBudget(session_id=session_id, budget=budget), Nothing
        )

    async def usage(
        self,
        *,
        by: Literal["call", "turn", "session", "agent", "model", "day"] = "session",
        session_id: str | None = None,
        since_ms: int = 0,
    ) -> UsageReport:
        """What model calls took in tokens, and cost; of one session or of all."""
        from ..config.usage_sums import UsageReport

        params = GetUsage(by=by, session_id=session_id, since_ms=since_ms)
        return await self.request("usage/get", params, UsageReport)

    async def agents(self) -> Sequence[Agent]:
        """The agents that sessions may have, by name."""
        return (await self.request("agent/list", Nothing(), Agents)).agents

    async def agent(self, name: str) -> Agent:
        """One agent; raises `NotFoundError`."""
        return await self.request("agent/get", OneAgent(name), Agent)
