"""The handles through which tools act, as protocols; what a context lacks, its tool can't do.

The methods of files block on the disk: call them in a worker thread. Each raises `ToolFailure`
with the error type that the model is to see, and takes a path relative to the workspace (or an
absolute one that lies inside).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from .budget import Budget
from .definitions import SessionKind
from .event_types.plan import PlanItem
from .event_types.turns import TurnOutcome
from .http.url import HttpUrl


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory knows about one of its entries.

    Attributes:
        path: Relative to the workspace, normalised, as it is on disk.
        kind: `file`, `directory`, `symlink` or `other` (a FIFO, a socket, a device).
        size_bytes: Its size.
        modified_seconds: When its content changed, in seconds since 1970.
        links: How many names the file has.
    """

    path: str
    kind: str
    size_bytes: int
    modified_seconds: float
    links: int = 1


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file's bytes.

    Attributes:
        data: At most as many bytes as were asked for.
        info: The file's own facts, from the same open file as the bytes.
    """

    data: bytes
    info: FileInfo


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a directory, sorted by path.

    Attributes:
        entries: The entries that were kept.
        total: How many there are, or `None` when a bound ended the count.
        truncated: Whether there are more than `entries`.
    """

    entries: tuple[FileInfo, ...]
    total: int | None
    truncated: bool


class ReadableFiles(Protocol):
    """The reading half of a workspace."""

    def normalize(self, path: str) -> str:
        """The path relative to the workspace; refused when it leads outside. No disk access."""
        ...

    def find(self, path: str, *, follow: bool = True) -> FileInfo | None:
        """The facts of what a path leads to (links inside are followed); `None` if nothing.

        Without `follow`, a link at the end stands for itself.
        """
        ...

    def read(self, path: str, *, offset: int = 0, limit: int) -> FileContent:
        """Up to `limit` bytes of a regular file from `offset`."""
        ...

    def entries(
        self, path: str, *, recursive: bool, include_hidden: bool, max_entries: int
    ) -> Listing:
        """What a directory holds; links are listed and never descended into."""
        ...


class WritableFiles(ReadableFiles, Protocol):
    """A whole workspace. A write is durable when the method returns."""

    def write(self, path: str, data: bytes, *, replace: bool, create_dirs: bool) -> FileInfo:
        """Puts a file in place atomically; without `replace`, only when the name is free."""
        ...

    def append(self, path: str, data: bytes, *, create_dirs: bool) -> FileInfo:
        """Adds to the end of a file, which is made when it is missing."""
        ...

    def replace_unchanged(self, path: str, data: bytes, *, digest: bytes) -> FileInfo:
        """Replaces a file only while its content still has this sha256 (`edit_conflict`)."""
        ...

    def move(self, source: str, destination: str, *, overwrite: bool) -> None:
        """Renames; a link is moved itself."""
        ...

    def delete(self, path: str, *, recursive: bool) -> tuple[str, ...]:
        """Removes a file, a link (never its target) or a directory; says what is gone."""
        ...


class ArtifactReader(Protocol):
    """The kept whole of results that were cut for the model."""

    async def read_artifact(self, artifact_id: str) -> bytes | None:
        """The bytes of an artifact of this session, or `None` when there is none."""
        ...


OnRedirect = Callable[[HttpUrl, HttpUrl, "WebRequest"], Awaitable[None]]
"""Told from where a server sends to where, and what would be asked there."""


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as a tool wants it sent.

    Attributes:
        method: In capitals.
        url: Absolute; checked again wherever a redirect leads.
        headers: By lower-case name, each valid in itself.
        body: What is sent; `None` is none, which is not the same as an empty one.
        on_redirect: The runtime's: told before a redirect is followed; it may refuse with
            `ToolFailure`.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    on_redirect: OnRedirect | None = None


class WebAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer at the end of all redirects.

    Attributes:
        url: Where it comes from.
        method: What was asked there: a redirect turns a POST into a GET.
        status: Any status: an error page is an answer.
        reason: The status in words.
        headers: By lower-case name; several of one name are joined by commas (cookies by lines).
        body: As much as was asked for, without the compression that it travelled in.
        size_bytes: How large the whole body is, as far as it was followed.
        is_larger: Whether it is larger than `size_bytes`.
    """

    url: str
    method: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    size_bytes: int
    is_larger: bool = False


class Network(Protocol):
    """The way out: public hosts and those that the operator listed, nothing else.

    Deadlines are the caller's.
    """

    async def request(self, request: WebRequest, *, max_bytes: int) -> WebAnswer:
        """Sends a request, follows redirects, and reads up to `max_bytes` of the body.

        Raises `ToolFailure`: `url_not_allowed`, `network_error`, or `validation_error`.
        """
        ...


class PersonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said to a model's question.

    Attributes:
        text: In their words; it may be empty when an option says it.
        answered_by: Who said it.
        option: Its place among those offered, counted from 0.

    Example:
        class Here(callboard.Channel):
            async def ask(self, question: callboard.UserQuestion) -> callboard.PersonAnswer:
                return callboard.PersonAnswer(text="", option=0, answered_by="the caretaker")

        question = {"question": "Which door?", "options": ["left", "right"]}
        script = [callboard.reply(calls=[("ask_user", question)]), callboard.reply("Left it is.")]
        model = callboard.ScriptedModel(script)
        async with callboard.open_runtime(model=model, channel=Here()) as runtime:
            print(await (await runtime.create_session()).run("Go in."))
    """

    text: str
    answered_by: str = "application"
    option: int | None = None


class ChannelHandle(Protocol):
    """The way to the people of a session: its own channel, or the one of the parent chain."""

    async def ask(self, question: str, options: tuple[str, ...] = ()) -> PersonAnswer:
        """Waits for a person; raises `ToolFailure` when nobody answers in time."""
        ...

    async def tell(self, text: str, channel: str | None = None) -> str:
        """Says something, on record; gives the name of the channel that has it."""
        ...


class PlanHandle(Protocol):
    """The way to the plan of the session, which people see."""

    async def set(self, items: tuple[PlanItem, ...]) -> None:
        """Puts the whole plan in the place of the one before; on record when it returns."""
        ...


class SkillReader(Protocol):
    """The way to the skills that the session's models are told of."""

    async def read(self, name: str, file: str | None = None) -> dict[str, Any]:
        """The instructions of a skill, or one of its files; raises `ToolFailure`."""
        ...


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """A task for another session.

    Attributes:
        kind: `branch` or `worker`.
        task: Its first input.
        tools: The tools it may use, of those that the parent has; `None` is all that its kind may.
        budget: What it may use, at most what is left to the parent.
        wait: Whether the call waits for the answer.
    """

    kind: SessionKind
    task: str
    tools: tuple[str, ...] | None = None
    budget: Budget | None = None
    wait: bool = True


class Delegated(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; `outcome` is the turn's, or `running` when nobody waited."""

    session_id: str
    outcome: TurnOutcome | Literal["interrupted", "running"]
    answer: str = ""
    message: str = ""


class SessionsHandle(Protocol):
    """The way to sessions of one's own."""

    async def delegate(
        self, delegation: Delegation, on_progress: Callable[[str], None] | None = None
    ) -> Delegated:
        """Runs the task; cancelled, it cancels the session and all below it.

        `on_progress` is told what becomes of it meanwhile. Raises `ToolFailure` when the session
        tree, or the budget, has no room for it, and when a tool is not the parent's to give.
        """
        ...


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a search engine found: all of it is written by strangers.

    Attributes:
        title: In one line.
        url: Of the web.
        snippet: Some words of it, in one line; it may be empty.
    """

    title: str
    url: str
    snippet: str


class SearchHandle(Protocol):
    """The operator's search engine."""

    async def search(self, query: str, *, limit: int) -> tuple[SearchHit, ...]:
        """The best hits, at most `limit`.

        Raises `ToolFailure`: `url_not_allowed` or `network_error` when it can't be reached,
        `execution_error` for what the operator has to mend.
        """
        ...
