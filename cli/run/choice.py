"""Decides the target of a run: the session that it continues, and the model that answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...config.settings import Settings
from ...providers.provider import LENT_SIGN
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.events import TurnStarted
from ...runtime.history import Attachment
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import SessionRow
from ...runtime.text import shell_word
from ...runtime.turn_options import GivenCall
from ..ask.gone_agent import gone_from
from ..hints import command_line
from ..record_names import find_session, folder_here, folders_of, nothing_here
from ..show.sessions import MAX_TITLE_CHARS
from ..terminal.escaping import safe_line, shortened
from ..terminal.style import minute
from .flags import RunFlags, TurnFlags
from .pending import last_end

PAGE_EVENTS = 200
"""Events that are read at once when looking back: a few turns."""
MAX_UNANSWERED = 20
"""Messages of a session in which an answer is looked for: one with more has some."""
ADVICE = {
    "cancelled": ("To ask for it once more", "--retry"),
    "failed": ("To ask for it once more", "--retry"),
    "max_tokens": ("To go on from there", "PROMPT"),
}
"""What a person may do about an outcome, and how the command for that ends."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `callboard run`, and of `callboard record`, which is recorded.

    Attributes:
        prompt: `None` to go on with what was left in the session.
        is_piped: Whether some of it came through a pipe or from a file, so that strangers may have written it.
        piped_bytes: How much of it is a file on stdin, beside the prompt.
        is_verbose: Whether it says more on the way; see `VerboseLines`.
        config: The file of the configuration, when one is named.
        answer_schema: The form of the answer, when one is given.
        calls: Calls that are made in the place of a prompt, without a model.
    """

    prompt: str | None
    flags: RunFlags = RunFlags()
    attachments: tuple[Attachment, ...] = ()
    is_piped: bool = False
    piped_bytes: int = 0
    is_recorded: bool = False
    is_verbose: bool = False
    config: Path | None = None
    answer_schema: dict[str, Any] | None = None
    calls: tuple[GivenCall, ...] = ()

    @property
    def has_input(self) -> bool:
        """Whether there is something new to do."""
        return self.prompt is not None or bool(self.calls) or self.flags.again is not None

    @property
    def wants_json(self) -> bool:
        """Whether the answer is JSON, alone on stdout."""
        return self.answer_schema is not None or bool(self.calls)


class RunTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The session, agent and model of a run.

    Attributes:
        session: The session to go on with, or `None` for a new one.
        agent: The agent's name.
        model: What the runtime is asked for; with `None` it looks for one.
        reason: Why that model, when the runtime can't know.
        remark: What to say of the session before anything else: a later one was passed over.
        gone: Says that the agent of the session is gone, where the command line names no other.
    """

    session: SessionRow | None
    agent: str
    model: str | None
    reason: str | None
    remark: str = ""
    gone: str = ""


async def choose(options: RunOptions, settings: Settings, reader: StoreReader | None) -> RunTarget:
    """Return the target of a run; `reader` has the session, when one is continued.

    Raises:
        NotFoundError: There is no session to go on with, or no such agent.
        ValidationError: The options contradict that session.
    """
    if reader is None:
        agent = options.flags.agent or "general"
        model, reason = _named(options, settings, agent)
        return RunTarget(session=None, agent=agent, model=model, reason=reason)
    name, remark = options.flags.session or "last", ""
    if name == "last":
        is_again = options.flags.again is not None
        row, remark = await _last_to_go_on_with(
            reader, folder_here(options.flags.workspace), is_again=is_again
        )
    else:
        row = await find_session(reader, name)
    agent = present_agent(settings, row.agent)
    _check(options, row, agent)
    is_gone = agent != row.agent and options.flags.agent is None
    gone = gone_from(row.session_id, row.agent) if is_gone else ""
    if agent != row.agent and not is_gone:
        said = (
            f"{row.session_id} goes on with the agent {agent}: there is no agent {row.agent!r} now"
        )
        remark = f"{remark}; {said}" if remark else said
    model, reason = _named(options, settings, agent)
    if options.flags.model is None and options.flags.base_url is None:
        own = row.model or await _last_model(reader, row.session_id)
        if own is not None:
            model, reason = own, "because the session uses it (--model changes that)"
    return RunTarget(session=row, agent=agent, model=model, reason=reason, remark=remark, gone=gone)


async def _last_to_go_on_with(
    reader: StoreReader, folder: str, *, is_again: bool
) -> tuple[SessionRow, str]:
    """Return the latest session of a folder that did not fail at once, and what to say of later ones that did.

    To run its last turn again, the latest one with any: one that failed at once is what people try again.

    Raises:
        NotFoundError: There is none.
    """
    rows = (await reader.session_page(folders_of(folder))).sessions
    failed: list[SessionRow] = []
    for row in rows:
        if (is_again and row.message_count) or await _goes_on(reader, row):
            return row, _passed_over(row, failed)
        if row.message_count:  # nobody misses one to which nothing was said
            failed.append(row)
    if rows:
        raise NotFoundError(
            f"No model has answered in a session of {safe_line(folder)} yet: leave --continue out to "
            f"begin a new one.{_to_go_on_with(failed, 'the last one')}"
        )
    everywhere = msgspec.structs.replace(folders_of(None), limit=1)
    raise nothing_here(folder, (await reader.session_page(everywhere)).sessions)


async def _goes_on(reader: StoreReader, row: SessionRow) -> bool:
    """Return whether a model answered in a session, something waits in it, or its turn was called off."""
    if row.is_active or row.message_count > MAX_UNANSWERED:
        return True
    messages = await reader.messages(row.session_id, limit=MAX_UNANSWERED)
    if any(message.type in {"assistant", "tool_call"} for message in messages):
        return True
    if await reader.open_inputs(row.session_id):
        return True
    ended = await last_end(reader, row)
    return ended is not None and ended.outcome == "cancelled"


def _passed_over(row: SessionRow, failed: Sequence[SessionRow]) -> str:
    """Return the line for a session that goes on in the place of later ones, which failed at once."""
    if not failed:
        return ""
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return (
        f"going on with {_entitled(row)}: {_entitled(failed[0])}{more} failed before a model "
        f"answered.{_to_go_on_with(failed, 'that one')}"
    )


def to_go_on(session_id: str, flags: RunFlags, rest: str) -> str:
    """Return the command that goes on with a session as it was begun here, whatever others do in the folder meanwhile."""
    place: list[str] = []
    if (
        flags.base_url is not None
    ):  # a session on record knows a model, and not the server of one that has no name
        place = ["--base-url", flags.base_url]
        for option, value in (("--model", flags.model), ("--dialect", flags.dialect)):
            place += [] if value is None else [option, value]
    words = map(shell_word, ["callboard", "run", "--session", session_id, *place])
    return command_line(f"{' '.join(words)} {rest}")


def _to_go_on_with(failed: Sequence[SessionRow], which: str) -> str:
    if not failed:
        return ""
    return f" To go on with {which}: `callboard run --session {failed[0].session_id} …`"


def _entitled(row: SessionRow) -> str:
    title = shortened(safe_line(row.title), MAX_TITLE_CHARS)
    return f"'{title}' of {minute(row.updated_at_ms)} ({row.session_id})"


def present_agent(settings: Settings, agent: str) -> str:
    """Return the agent that answers in a session: `general` where its own is gone, which its next turn says."""
    try:
        return settings.agent(agent).name
    except NotFoundError:
        return "general"


def _named(options: RunOptions, settings: Settings, agent: str) -> tuple[str | None, str | None]:
    if options.flags.model is not None or options.flags.base_url is not None:
        return options.flags.model, None
    if (preferred := settings.agent(agent).model) is not None:
        return preferred, f"because agent {agent!r} prefers it"
    return None, None


def _check(options: RunOptions, row: SessionRow, agent: str) -> None:
    session = check_fits(row, agent, options.flags, options.flags.session, "--continue")
    if options.flags.model is not None and row.model not in {None, options.flags.model}:
        raise ValidationError(
            f"{session} was made for the model {row.model}: leave --model out, or leave --continue "
            f"out to begin a new one with {options.flags.model}.",
            field="model",
        )
    if not Path(row.workspace).is_dir():
        raise NotFoundError(
            f"{session} works in {row.workspace}, which is not there any more: put it back, or "
            "leave --continue out to begin a new one."
        )


def check_fits(row: SessionRow, agent: str, flags: TurnFlags, name: str | None, option: str) -> str:
    """Return what to call a session that goes on with an agent, by this option.

    Raises:
        ValidationError: It has another folder or agent than the command line says.
    """
    which = "last session" if name in {None, "last"} else "session"
    session = f"The {which}, {row.session_id},"
    if flags.workspace is not None and not _is_same(flags.workspace, Path(row.workspace)):
        raise ValidationError(
            f"{session} works in {row.workspace}: leave --workspace out, or leave {option} out "
            f"to begin a new one in {flags.workspace}.",
            field="workspace",
        )
    if flags.agent not in {None, row.agent, agent}:
        raise ValidationError(
            f"{session} has the agent {row.agent!r}: leave --agent out, or leave {option} out to "
            f"begin a new one with {flags.agent!r}.",
            field="agent",
        )
    return session


def _is_same(one: Path, other: Path) -> bool:
    return one.expanduser().resolve() == other.resolve()


async def _last_model(reader: StoreReader, session_id: str) -> str | None:
    """Return the `PROVIDER/MODEL` of the last turn that began."""
    row = await reader.session(session_id)
    before = row.head_seq if row is not None else 0
    while before > 0:
        after = max(before - PAGE_EVENTS, 0)
        page = await reader.events(session_id, after_seq=after, limit=before - after)
        for stored in reversed(page):
            if isinstance(stored.event, TurnStarted):
                return f"{stored.event.provider}/{stored.event.model}"
        before = after
    return None


def shown(model: str) -> str:
    """Return a model's name without what tells a lent one from others."""
    return model.partition(LENT_SIGN)[0]
