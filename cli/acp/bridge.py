"""The methods that an editor calls, on the sessions that it has open."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ...client.client import Client
from ...providers.catalog.table import REHEARSAL
from ...runtime.errors import CallboardError, NotFoundError
from ...runtime.redaction import redacting_logger
from ...runtime.store.rows import SessionRow
from ...runtime.wire.rpc import INVALID_PARAMS, INVALID_REQUEST
from ..daemon.roots import create_session
from ..sharing.holder import Holder
from . import wire
from .connection import (
    AnsweredRequest,
    EditorConnection,
    EditorRequest,
    Method,
    RequestFailed,
    read_params,
)
from .content import linked_files, read_prompt, trace_of
from .options import read_choices
from .session import EditorSession
from .slash import command_of, compacting, offered_in
from .updates import message

if TYPE_CHECKING:
    from ...config.mcp.wire import SessionServer

logger = redacting_logger(__name__)

VERSION = 1
"""The version of the protocol. A client that offers another one is told this, and may leave."""
EDITOR_SECONDS = 10.0
"""Time for an editor to hand over the texts of the files that a prompt names; then the disk has them."""
SERVERS_SECONDS = 15.0
"""Time that a prompt gives the editor's MCP servers to list their tools; later ones are there for the next prompt."""
_FILE_TEXT = msgspec.json.Decoder(wire.ReadTextFileResponse)
LIST_LIMIT = 50
_CURSOR = re.compile(r"[0-9]{1,16}")
MAX_OPEN = 100
"""Sessions that one editor has open at once: each is followed, with a buffer of its own."""
LOGIN = wire.AuthMethod(
    id="key",
    name="Store a provider's key",
    description="Asks at a terminal for the key of a provider, and stores it encrypted",
    type="terminal",
    args=("--login",),
)


class Bridge:
    """What one editor does with the daemon.

    Args:
        connection: The editor.
        client: The daemon.
        holder: Whether that is this command's own.
        agent: The agent of new sessions.
        nursery: Where sessions are followed.

    Attributes:
        lent: The model of this command, where the daemon is another command.
    """

    def __init__(
        self,
        connection: EditorConnection,
        client: Client,
        holder: Holder,
        agent: str,
        nursery: trio.Nursery,
    ) -> None:
        self.lent: str | None = None
        self._connection = connection
        self._client = client
        self._holder = holder
        self._agent = agent
        self._nursery = nursery
        self._editor: wire.ClientCapabilities | None = None
        self._sessions: dict[str, EditorSession] = {}
        self._at_work: Counter[str] = Counter()
        connection.methods = {
            "initialize": self._initialize,
            **{name: self._in_order(method) for name, method in self._methods().items()},
        }
        connection.notices = {
            "session/cancel": self._cancel,
            "$/cancel_request": connection.cancel_request,
        }

    def take_lent(self, model: str) -> None:
        """Have turns that name no model use this one, which the daemon was lent."""
        self.lent = model
        for session in self._sessions.values():
            session.lent = model

    def _methods(self) -> dict[str, Method]:
        return {
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/delete": self._delete,
            "session/close": self._close,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
        }

    def _in_order(self, method: Method) -> Method:
        async def call(request: EditorRequest) -> AnsweredRequest:
            if request.method == "session/prompt":  # before it waits: a cancel may be here already
                request.when_cancelled = wire.PromptResponse(stop_reason="cancelled")
            await self._wait_for_earlier(request)
            if self._editor is None:
                raise RequestFailed(INVALID_REQUEST, "the first request is initialize")
            return await method(request)

        return call

    async def _wait_for_earlier(self, request: EditorRequest) -> None:
        """Wait until what came before it, and may decide about it, was taken: an editor need not wait for answers.

        That is `initialize`, and for a session what was said of the same one.
        """
        await trio.lowlevel.checkpoint()
        session_id = _session_id_of(request)
        for earlier in self._connection.requests_before(request):
            is_same = session_id is not None and session_id == _session_id_of(earlier)
            if is_same or earlier.method == "initialize":
                await earlier.is_taken.wait()

    # ── the connection ───────────────────────────────────────────────────────────────────────────

    async def _initialize(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.InitializeRequest)
        if self._editor is not None:
            raise RequestFailed(INVALID_REQUEST, "initialize was called before")
        editor = self._editor = params.client_capabilities or wire.ClientCapabilities()
        can_log_in = editor.auth is not None and editor.auth.terminal
        needs_key = can_log_in and not await self._has_model()
        return AnsweredRequest(
            wire.InitializeResponse(
                protocol_version=VERSION,
                agent_capabilities=wire.AgentCapabilities(
                    load_session=True,
                    prompt_capabilities=wire.PromptCapabilities(image=True, embedded_context=True),
                    mcp_capabilities=wire.McpCapabilities(http=True),
                    session_capabilities=wire.SessionCapabilities(
                        list=wire.Supported(),
                        delete=wire.Supported(),
                        resume=wire.Supported(),
                        close=wire.Supported(),
                    ),
                ),
                auth_methods=(LOGIN,) if needs_key else (),
                agent_info=wire.Implementation(
                    name="callboard", title="callboard", version=self._client.welcome.server.version
                ),
            )
        )

    async def _has_model(self) -> bool:
        try:
            default = await self._client.models.default()
        except CallboardError:
            return False
        return not default.model.startswith(REHEARSAL)

    async def _authenticate(self, request: EditorRequest) -> AnsweredRequest:
        wanted = read_params(request.params, wire.AuthenticateRequest).method_id
        await trio.lowlevel.checkpoint()
        raise RequestFailed(
            INVALID_PARAMS,
            f"there is no method {wanted!r:.80} to authenticate by: `callboard keys set PROVIDER` stores a key",
        )

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    async def _new(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.NewSessionRequest)
        folder = await _folder(params.cwd)
        _servers_of(params.mcp_servers)  # before there is a session
        row = await create_session(
            self._client,
            folder,
            _agreed,
            agent=self._agent,
            model=None,
            is_shared=self._holder.is_shared,
        )
        session = await self._open(row, servers=params.mcp_servers)
        return AnsweredRequest(
            wire.NewSessionResponse(
                session_id=row.session_id,
                modes=session.choices.modes(),
                config_options=session.choices.config(),
            ),
            session.announce,
        )

    async def _load(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.LoadSessionRequest)
        row = await self._row(params.session_id, params.cwd)
        session = await self._open(row, is_loaded=True, servers=params.mcp_servers)
        modes, options = session.choices.modes(), session.choices.config()
        return AnsweredRequest(
            wire.LoadSessionResponse(modes=modes, config_options=options), session.announce
        )

    async def _resume(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.ResumeSessionRequest)
        row = await self._row(params.session_id, params.cwd)
        session = await self._open(row, servers=params.mcp_servers)
        modes, options = session.choices.modes(), session.choices.config()
        return AnsweredRequest(
            wire.ResumeSessionResponse(modes=modes, config_options=options), session.announce
        )

    async def _row(self, session_id: str, cwd: str) -> SessionRow:
        """Return a session on record that works in this folder."""
        row, folder = await self._client.session(session_id), await _folder(cwd)
        if row.deleted_at_ms is not None:
            raise NotFoundError(
                f"{session_id} was deleted: `callboard session restore` brings it back"
            )
        if str(folder) != row.workspace:
            raise RequestFailed(
                INVALID_PARAMS, f"{session_id} works in {row.workspace}, not in {folder}"
            )
        return row

    async def _open(
        self,
        row: SessionRow,
        *,
        servers: tuple[wire.McpServer, ...] | None,
        is_loaded: bool = False,
    ) -> EditorSession:
        """Follow a session from now on, in the place of an earlier look at it."""
        own_servers = _servers_of(servers)
        await self._forget(row.session_id)
        if len(self._sessions) >= MAX_OPEN:
            raise RequestFailed(
                INVALID_REQUEST, f"{MAX_OPEN} sessions are open: close one with session/close"
            )
        assert self._editor is not None
        session = EditorSession(
            self._connection,
            self._client,
            row,
            await read_choices(self._client, row.agent, row.model),
            asks=self._editor.elicitation,
            is_loaded=is_loaded,
            servers=own_servers,
        )
        session.lent = self.lent
        self._sessions[row.session_id] = session
        try:
            await self._nursery.start(session.run, name=f"session {row.session_id}")
        except BaseException:
            if self._sessions.get(row.session_id) is session:
                del self._sessions[row.session_id]
            raise
        return session

    async def _forget(self, session_id: str) -> None:
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.close()

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestFailed(
                INVALID_PARAMS,
                f"the session {session_id!r:.80} is not open: session/load or session/resume opens it",
            )
        return session

    async def _list(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.ListSessionsRequest)
        if params.cursor is not None and not _CURSOR.fullmatch(params.cursor):
            raise RequestFailed(INVALID_PARAMS, "the cursor is not one of session/list")
        page = await self._client.find_sessions(
            workspace=None if params.cwd is None else str(await _folder(params.cwd)),
            include_children=False,
            before=None if params.cursor is None else int(params.cursor),
            limit=LIST_LIMIT,
        )
        following = None if page.next_before is None else str(page.next_before)
        sessions = tuple(_info(row) for row in page.sessions)
        return AnsweredRequest(wire.ListSessionsResponse(sessions=sessions, next_cursor=following))

    async def _delete(self, request: EditorRequest) -> AnsweredRequest:
        session_id = read_params(request.params, wire.DeleteSessionRequest).session_id
        await self._client.delete_sessions([session_id])
        await self._forget(session_id)
        return AnsweredRequest()

    async def _close(self, request: EditorRequest) -> AnsweredRequest:
        session = self._session(read_params(request.params, wire.CloseSessionRequest).session_id)
        await session.leave()
        await self._forget(session.row.session_id)
        return AnsweredRequest()

    # ── what is chosen, and said ─────────────────────────────────────────────────────────────────

    async def _set_mode(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.SetSessionModeRequest)
        session = self._session(params.session_id)
        session.choices.choose("mode", params.mode_id)
        await trio.lowlevel.checkpoint()
        options = session.choices.config()
        return AnsweredRequest(
            then=_sending(session, wire.SessionUpdateConfigOptionUpdate(config_options=options))
        )

    async def _set_option(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.SetSessionConfigOptionRequest)
        session = self._session(params.session_id)
        await session.choose(params.config_id, params.value)
        then = None
        if params.config_id in {"mode", "_agent"}:
            mode = str(session.choices.mode)
            then = _sending(session, wire.SessionUpdateCurrentModeUpdate(current_mode_id=mode))
        options = session.choices.config()
        return AnsweredRequest(wire.SetSessionConfigOptionResponse(config_options=options), then)

    async def _prompt(self, request: EditorRequest) -> AnsweredRequest:
        params = read_params(request.params, wire.PromptRequest)
        session = self._session(params.session_id)
        unsaved = await self._unsaved(session, params.prompt)
        prompt = await trio.to_thread.run_sync(read_prompt, params.prompt, session.folder, unsaved)
        prompt = msgspec.structs.replace(prompt, trace=trace_of(params.meta))
        if not prompt.text.strip() and not prompt.attachments:
            raise RequestFailed(INVALID_PARAMS, "the prompt is empty")
        if (found := command_of(prompt.text)) is not None:
            command, argument = found
            said = await command.run(session, argument)
            session.update(message(f"{said}\n"))
            return AnsweredRequest(wire.PromptResponse(stop_reason="end_turn"))
        if prompt.text.startswith("/"):
            if (shown := await session.ask_server(prompt)) is not None:
                session.update(message(f"{shown}\n"))
                return AnsweredRequest(wire.PromptResponse(stop_reason="end_turn"))
            prompt = compacting(offered_in(prompt, session.offered))
        session.offered = None
        await session.bring_servers(SERVERS_SECONDS)  # cancelled meanwhile, it is not sent
        self._at_work[params.session_id] += 1
        self._holder.show(*self._at_work)
        try:
            stop_reason = await session.prompt(prompt, request)
        except CallboardError:
            self._rest(params.session_id)
            raise
        # Not where this is cancelled: the editor has gone, and the daemon ends what was at work.
        self._rest(params.session_id)
        return AnsweredRequest(wire.PromptResponse(stop_reason=stop_reason))

    def _rest(self, session_id: str) -> None:
        self._at_work -= Counter([session_id])
        self._holder.show(*self._at_work)

    async def _unsaved(
        self, session: EditorSession, blocks: tuple[wire.ContentBlock, ...]
    ) -> dict[str, str]:
        """Return the texts that the editor has of linked files, which may not be on the disk yet."""
        files = self._editor.fs if self._editor is not None else None
        if files is None or not files.read_text_file:
            return {}
        found: dict[str, str] = {}
        paths = await trio.to_thread.run_sync(linked_files, blocks, session.folder)
        with trio.move_on_after(EDITOR_SECONDS):
            await trio.lowlevel.checkpoint()
            for uri, path in paths.items():
                asked = wire.ReadTextFileRequest(session_id=session.row.session_id, path=str(path))
                text = await self._connection.ask("fs/read_text_file", asked, _FILE_TEXT)
                if isinstance(text, wire.ReadTextFileResponse):
                    found[uri] = text.content
        return found

    def _cancel(self, params: msgspec.Raw) -> None:
        """Cancel the prompts of a session, also one that has come with the same read."""
        wanted = read_params(params, wire.CancelNotification).session_id
        for request in self._connection.requests_of("session/prompt"):
            with suppress(RequestFailed):  # which is its answer, too
                if read_params(request.params, wire.CancelNotification).session_id == wanted:
                    request.cancel()


def _session_id_of(request: EditorRequest) -> str | None:
    """Return which session a request is about; `None` for one that names none, or can't be read."""
    with suppress(RequestFailed):
        return read_params(request.params, wire.CancelNotification).session_id
    return None


def _servers_of(servers: tuple[wire.McpServer, ...] | None) -> tuple[SessionServer, ...]:
    """Return the MCP servers that the editor brings; raise `RequestFailed`."""
    if not servers:
        return ()
    from .servers import read_servers  # here: most editors bring none

    return read_servers(servers)


async def _agreed(question: str) -> bool:
    """Agree that the folder becomes a root: the person opened it in the editor."""
    logger.info("%s (yes: the editor opened it)", question)
    await trio.lowlevel.checkpoint()
    return True


async def _folder(cwd: str) -> Path:
    """Return the real path of a folder that the editor names."""
    if not cwd.startswith("/") or "\0" in cwd:
        raise RequestFailed(INVALID_PARAMS, f"cwd is an absolute path, and {cwd!r:.200} is none")
    path = trio.Path(cwd)
    try:
        if await path.is_dir():
            return Path(await path.resolve())
        why = "there is none"
    except OSError as error:  # a name that is too long
        why = error.strerror or str(error)
    raise RequestFailed(INVALID_PARAMS, f"{cwd!r:.200} is no folder: {why}")


def _sending(session: EditorSession, update: wire.SessionUpdate) -> Callable[[], None]:
    return lambda: session.update(update)


def _info(row: SessionRow) -> wire.SessionInfo:
    at = datetime.fromtimestamp(row.updated_at_ms / 1000, UTC)
    return wire.SessionInfo(
        session_id=row.session_id,
        cwd=row.workspace,
        title=row.title or None,
        updated_at=at.isoformat().replace("+00:00", "Z"),
    )
