"""Handles: the protocols through which tools act. A tool can only do what its context has a handle for.

The methods of file handles block on the disk: call them in a worker thread. Each raises `ToolFailure`
with the error type for the model, and takes a path relative to the workspace, or an absolute path
inside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from .budget import Budget
from .definitions import SessionKind
from .event_types.people import QuestionForm
from .event_types.plan import PlanItem
from .event_types.turns import TurnOutcome
from .http.url import HttpUrl


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a directory entry.

    Attributes:
        path: The path on disk, normalised and relative to the workspace.
        kind: `file`, `directory`, `symlink` or `other` (a FIFO, a socket, a device).
        modified_seconds: When the content changed, in seconds since 1970.
        links: The number of hard links.
    """

    path: str
    kind: str
    size_bytes: int
    modified_seconds: float
    links: int = 1


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file's bytes.

    Attributes:
        info: The file's metadata, read from the same open file as the bytes.
    """

    data: bytes
    info: FileInfo


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a directory, sorted by path.

    Attributes:
        total: How many entries there are, or `None` if a limit ended the count.
        truncated: Whether there are more than `entries`.
    """

    entries: tuple[FileInfo, ...]
    total: int | None
    truncated: bool


class ReadableFiles(Protocol):
    """The reading half of a workspace."""

    def normalize(self, path: str) -> str:
        """Return a path relative to the workspace; refuse one that leads outside. No disk access."""
        ...

    def find(self, path: str, *, follow: bool = True) -> FileInfo | None:
        """Return the metadata of a path, or `None` if nothing is there. Links are followed inside.

        Without `follow`, a link at the end of the path is not followed.
        """
        ...

    def read(self, path: str, *, offset: int = 0, limit: int) -> FileContent:
        """Read up to `limit` bytes of a regular file from `offset`."""
        ...

    def entries(
        self, path: str, *, recursive: bool, include_hidden: bool, max_entries: int
    ) -> Listing:
        """List a directory; links are listed but never followed."""
        ...


class WritableFiles(ReadableFiles, Protocol):
    """A workspace for reading and writing. A write is durable when the method returns."""

    def write(self, path: str, data: bytes, *, replace: bool, create_dirs: bool) -> FileInfo:
        """Write a file atomically; without `replace`, fail if the name exists."""
        ...

    def append(self, path: str, data: bytes, *, create_dirs: bool) -> FileInfo:
        """Append to a file; create it if it is missing."""
        ...

    def replace_unchanged(self, path: str, data: bytes, *, digest: bytes) -> FileInfo:
        """Replace a file if its content still has this SHA-256, else fail with `edit_conflict`."""
        ...

    def move(self, source: str, destination: str, *, overwrite: bool) -> None:
        """Rename an entry; a link itself is moved, not its target."""
        ...

    def delete(self, path: str, *, recursive: bool) -> tuple[str, ...]:
        """Remove a file, a link (never its target) or a directory; return the removed paths."""
        ...


class ArtifactReader(Protocol):
    """Access to the full results of which the model got a shortened form."""

    async def read_artifact(self, artifact_id: str) -> bytes | None:
        """Return an artifact of this session, or `None` if there is none."""
        ...


OnRedirect = Callable[[HttpUrl, HttpUrl, "WebRequest"], Awaitable[None]]
"""Called before a redirect is followed: from which URL, to which, with which request."""


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP request of a tool.

    Attributes:
        method: In upper case.
        url: Absolute; the target of each redirect is checked again.
        headers: Valid headers by lower-case name.
        body: `None` sends no body, which differs from an empty one.
        on_redirect: Set by the runtime; called before a redirect is followed, and may refuse it with
            `ToolFailure`.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    on_redirect: OnRedirect | None = None


class WebAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The response after all redirects.

    Attributes:
        url: The URL that responded.
        method: The method of the last request: a redirect may turn a POST into a GET.
        status: Any status: an error page is a response too.
        headers: By lower-case name; several of one name are joined by commas (cookies by newlines).
        body: As much of the decompressed body as was asked for.
        size_bytes: The size of the whole body, as far as it was read.
        is_larger: Whether it is larger than `size_bytes`.
        warning: What failed after the server had done what a request asked for.
    """

    url: str
    method: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    size_bytes: int
    is_larger: bool = False
    warning: str = ""


class Network(Protocol):
    """The network: public hosts and those that the operator lists, no others.

    Callers set the deadlines.
    """

    async def request(self, request: WebRequest, *, max_bytes: int) -> WebAnswer:
        """Send a request, follow redirects, and read up to `max_bytes` of the body.

        Raises `ToolFailure`: `url_not_allowed`, `network_error`, or `validation_error`.
        """
        ...


class PersonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to a model's question.

    Attributes:
        text: The person's words; may be empty with an `option`.
        answered_by: Who answered.
        option: The index of the chosen option, from 0.

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


class ModelMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a `ModelQuestion`."""

    role: Literal["user", "assistant"]
    text: str


class ModelQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a call asks the model of its turn, beside the conversation.

    Attributes:
        messages: What was said, in order; the last message is the user's.
        system: What the model is told first.
        max_tokens: How long its answer may be.
        temperature: Of the sampling, `None` for the provider's default.
        stop_sequences: Texts at which the answer ends.
    """

    messages: tuple[ModelMessage, ...]
    system: str = ""
    max_tokens: int
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answered; `is_cut` when it would have said more than it might."""

    text: str
    model: str
    is_cut: bool = False


class ModelHandle(Protocol):
    """The model of the turn, which answers within the turn's budget; it gets no tools."""

    @property
    def name(self) -> str:
        """The model that would answer, as PROVIDER/MODEL."""
        ...

    async def ask(self, call_id: str, question: ModelQuestion) -> ModelAnswer:
        """Return its answer to a call, which is on record then; raise `ToolFailure` when there is none."""
        ...


class ChannelHandle(Protocol):
    """The people of a session, reached through its own channel or that of an ancestor."""

    async def ask(
        self,
        question: str,
        options: tuple[str, ...] = (),
        *,
        form: QuestionForm | None = None,
        is_one_of_many: bool = False,
    ) -> PersonAnswer:
        """Ask a person and wait for the answer; raise `ToolFailure` if none comes in time.

        A call that asks once takes the answer to its question when it goes on after a restart; with
        `is_one_of_many` each question is a new one.
        """
        ...

    async def tell(self, text: str, channel: str | None = None) -> str:
        """Record and send a message; return the name of the channel that got it."""
        ...


class PlanHandle(Protocol):
    """The plan of the session, which people see."""

    async def set(self, items: tuple[PlanItem, ...]) -> None:
        """Replace the whole plan; on record when this returns."""
        ...


class SkillReader(Protocol):
    """The skills that the session's models are offered."""

    async def read(self, name: str, file: str | None = None) -> dict[str, Any]:
        """Return the instructions of a skill, or one of its files; raise `ToolFailure` if there is none."""
        ...


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """A task for another session.

    Attributes:
        kind: `branch` or `worker`.
        task: Its first input.
        tools: Which of the parent's tools it may use; `None` is all that its kind may use.
        budget: Its budget; never more than what is left of the parent's.
        wait: Whether the call waits for the answer.
    """

    kind: SessionKind
    task: str
    tools: tuple[str, ...] | None = None
    budget: Budget | None = None
    wait: bool = True


class Delegated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a delegation; `outcome` is the turn's, or `running` if the call did not wait."""

    session_id: str
    outcome: TurnOutcome | Literal["interrupted", "running"]
    answer: str = ""
    message: str = ""


class SessionsHandle(Protocol):
    """Delegation of tasks to new sessions."""

    async def delegate(
        self, delegation: Delegation, on_progress: Callable[[str], None] | None = None
    ) -> Delegated:
        """Run a task in a new session. Cancelling this cancels the session and all below it.

        `on_progress` is called with one line for each step. Raises `ToolFailure` if the limits of the
        session tree or the budget forbid it, or if the parent lacks one of the tools.
        """
        ...


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a search engine found; strangers wrote all of it.

    `title` and `snippet` (an excerpt, may be empty) are one line each.
    """

    title: str
    url: str
    snippet: str


class SearchHandle(Protocol):
    """The operator's search engine."""

    async def search(self, query: str, *, limit: int) -> tuple[SearchHit, ...]:
        """Return the best hits, at most `limit`.

        Raises `ToolFailure`: `url_not_allowed` or `network_error` if the engine can't be reached,
        `execution_error` if the operator must correct its settings.
        """
        ...
