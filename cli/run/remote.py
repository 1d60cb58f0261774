"""`callboard run` while a daemon has the store: the same run, in the daemon."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ...client.client import Client, connect
from ...client.events import RemoteEvents
from ...config.daemon_file import RunningDaemon
from ...runtime.approval import ApprovalAnswer, ApprovalRequest
from ...runtime.budget import Budget
from ...runtime.definitions import Preset, ThinkingEffort
from ...runtime.errors import ConflictError, ValidationError
from ...runtime.events import Stored
from ...runtime.history import Attachment
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import SessionRow
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.daemon import WorkspaceRoot, WorkspaceRoots
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import SelectedModel
from ...runtime.wire.sessions import SetBudget
from ..ask.daemon_questions import DaemonQuestions
from ..daemon.roots import root_advice
from ..show.sessions import open_record
from .choice import Choice, RunOptions
from .place import Meeting
from .remote_turn import RemoteTurn

OTHERWISE = (
    "Leave it out, stop the daemon with `callboard stop`, or use another data folder with --data."
)

_NOT_THERE = {
    "--base-url": "name the place first, `callboard providers add NAME --base-url URL`, and then "
    "--model NAME/MODEL",
    "callboard record": "a daemon's network is everybody's, and a recording holds one run: record "
    "with a data folder of its own, --data DIR",
}
"""What a run in the daemon can't have, and what does the same."""


def check_options(options: RunOptions) -> None:
    """Raises `ConflictError` for what a run can't choose of a runtime that is there already."""
    given = {
        "--base-url": options.base_url is not None,
        "callboard record": options.is_recorded,
    }
    for name, is_given in given.items():
        if is_given:
            raise ConflictError(
                f"{name} is not for a run in the daemon: {_NOT_THERE[name]}. {OTHERWISE}"
            )
    if options.prompt is None and _of_turn(options, None) != TurnOptions():
        raise ConflictError(
            "--model, --policy, --fallback, --thinking, --temperature and --max-tokens are for the "
            "turn of a prompt; what was left goes on in the daemon as it was begun. Give a prompt, "
            "or leave them out."
        )


def turn_options(options: RunOptions, session: SessionRow | None) -> TurnOptions | None:
    """What the turn of the prompt has in the place of its agent's own.

    Raises:
        ValidationError: There is no such policy.
    """
    found = _of_turn(options, session)
    return None if found == TurnOptions() else found


def _of_turn(options: RunOptions, session: SessionRow | None) -> TurnOptions:
    tuning = options.tuning
    # A new session is begun with its model, and keeps it.
    is_other = session is not None and session.model is None
    return TurnOptions(
        model=options.model if is_other or options.prompt is None else None,
        fallbacks=tuning.fallback or None,
        thinking=None if tuning.thinking is None else ThinkingEffort(tuning.thinking),
        temperature=tuning.temperature,
        max_output_tokens=tuning.max_tokens,
        policy=None if options.policy is None else _preset(options.policy),
    )


def _preset(name: str) -> Preset:
    try:
        return Preset(name)
    except ValueError:
        known = ", ".join(Preset)
        raise ValidationError(
            f"there is no policy {name!r}; there are: {known}", field="policy"
        ) from None


@asynccontextmanager
async def open_remote_place(
    daemon: RunningDaemon,
    data: Path,
    options: RunOptions,
    choice: Choice,
    meeting: Meeting,
) -> AsyncGenerator[RemotePlace]:
    """The daemon as the place of a run, around the block.

    Raises:
        ConflictError: An option is about the runtime itself, which is the daemon's.
    """
    check_options(options)
    wanted = turn_options(options, choice.session)
    async with (
        open_record(data) as reader,
        connect(daemon.url, daemon.token.reveal()) as client,
    ):
        default = await client.request("model/default", Nothing(), SelectedModel)
        if choice.model is not None:
            default = SelectedModel(choice.model, choice.reason or "because --model says so")
        raised: BaseException | None = None
        async with trio.open_nursery() as nursery:
            questions = DaemonQuestions(client, meeting.channel, nursery, meeting.notice)
            try:
                yield RemotePlace(client, reader, questions, options, default, meeting, wanted)
            except BaseException as error:  # noqa: ASYNC103  raised again below
                raised = error
            finally:
                nursery.cancel_scope.cancel(reason="the run is over")
        if raised is not None:
            raise raised


class RemotePlace:
    """A `RunPlace`: the daemon."""

    def __init__(
        self,
        client: Client,
        reader: StoreReader,
        questions: DaemonQuestions,
        options: RunOptions,
        model: SelectedModel,
        meeting: Meeting,
        wanted: TurnOptions | None,
    ) -> None:
        self.store = reader
        self.model = model.model
        self.model_reason = model.reason
        self._client = client
        self._questions = questions
        self._options = options
        self._meeting = meeting
        self._wanted = wanted

    async def create_session(self, *, agent: str, budget: Budget | None) -> RemoteSession:
        """Begins a session in the folder of the command; asks for one that is below no root."""
        folder = (self._options.workspace or Path.cwd()).expanduser().resolve()
        try:
            row = await self._create(agent, folder, budget)
        except ValidationError as error:
            if error.field != "workspace" or not folder.is_dir():
                raise
            await self._add_root(folder)
            row = await self._create(agent, folder, budget)
        return self._session(row.session_id)

    async def get_session(self, session_id: str) -> RemoteSession:
        """A session on record; raises `NotFoundError`."""
        return self._session((await self._client.session(session_id)).session_id)

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """See `Runtime.approval`."""
        return await self._client.approval(approval_id, arguments=arguments)

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """See `Runtime.answer`."""
        await self._client.answer(approval_id, answer)

    async def _create(self, agent: str, folder: Path, budget: Budget | None) -> SessionRow:
        return await self._client.create_session(
            agent=agent, workspace=str(folder), model=self._options.model, budget=budget
        )

    async def _add_root(self, folder: Path) -> None:
        question = f"{folder} is below no root of the daemon. Let its sessions work there? [y/N] "
        confirm = self._meeting.confirm
        if confirm is None or not await confirm(question):
            raise ConflictError(
                f"{folder} is below no root of the daemon. Run this at a terminal, which asks; or "
                f"{root_advice(folder)}"
            )
        await self._client.request("root/add", WorkspaceRoot(str(folder)), WorkspaceRoots)

    def _session(self, session_id: str) -> RemoteSession:
        return RemoteSession(self._client, self.store, self._questions, session_id, self._wanted)


class RemoteSession:
    """A `RunSession` in the daemon."""

    def __init__(
        self,
        client: Client,
        reader: StoreReader,
        questions: DaemonQuestions,
        session_id: str,
        wanted: TurnOptions | None,
    ) -> None:
        self.session_id = session_id
        self._wanted = wanted
        self._client = client
        self._reader = reader
        self._questions = questions

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> RemoteTurn:
        """A turn for this input."""
        return self._turn().of_prompt(text, attachments, budget, self._wanted)

    async def resume(self) -> RemoteTurn | None:
        """The turn that runs or waits, which goes on by being heard; or that of a waiting input."""
        row = await self._reader.session(self.session_id)
        head_seq = row.head_seq if row is not None else 0
        for turn in await self._reader.open_turns():
            if turn.session_id == self.session_id:
                return self._turn().behind(head_seq, turn_id=turn.turn_id)
        for waiting in await self._reader.open_inputs(self.session_id):
            return self._turn().behind(head_seq, input_id=waiting.input_id)
        return None

    def follow(self) -> Followed:
        """All that happens from here on."""
        return Followed(self._client.events(self.session_id))

    async def set_budget(self, budget: Budget | None) -> None:
        """See `Session.set_budget`."""
        params = SetBudget(session_id=self.session_id, budget=budget)
        await self._client.request("session/set_budget", params, Nothing)

    def _turn(self) -> RemoteTurn:
        return RemoteTurn(self._client, self._questions, self.session_id)


class Followed:
    """Events of a session without what they are wrapped in: enter it, then iterate."""

    def __init__(self, events: RemoteEvents) -> None:
        self._events = events

    async def __aenter__(self) -> AsyncIterator[object]:
        await self._events.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._events.__aexit__(None, None, None)  # noqa: ASYNC102  as the client does

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        event = await anext(self._events)
        return event.event if isinstance(event, Stored) else event
