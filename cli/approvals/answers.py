"""`callboard approve`, `deny` and `grants revoke`: answer a question that is on record.

With a daemon, its session goes on with the answer at once. Without one, nothing runs: the answer
waits on record for `callboard run --continue`.

A question names the version of the policy under which it was asked, and the version depends on the
agents, the preset and the channel of the runtime that asked. Other arguments can only be judged under
the same rules, so `asked_under` looks for the preset and the channel that give that version again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import trio
from cyclopts import Parameter

from ...actors.people.lineage import Channels, Lineage
from ...actors.permissions.decisions import SessionPolicies
from ...config.daemon_file import find_daemon
from ...config.files import data_folder, load_settings
from ...config.policy.policy import PolicyBook
from ...config.search_engines import search_places
from ...config.settings import Settings
from ...embedding.options import agents_of
from ...runtime.channel import Channel
from ...runtime.definitions import Agent, Preset
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.messages import ApprovalAnswer, CallPlace, PermissionQuestion
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import ApprovalRow, SessionRow
from ...runtime.text import shell_word
from ...tools.builtin import builtin_tools
from ...tools.registry import ToolRegistry
from ..ask.terminal_channel import TerminalChannel
from ..backend import open_backend
from ..exit_codes import ANSWERED
from ..parameters import Config, Data, data_path, offered
from ..record_names import find_approval, find_grant
from ..show.question_text import ANSWERED_BY
from ..show.sessions import open_record
from ..terminal.complaint import wrong_usage
from ..terminal.escaping import safe_line
from .edit import edited_at_terminal, needs_terminal
from .list import described, grant_line

CHANNELS = (TerminalChannel.name, Channel.name, None)
"""Channels of runtimes: of `callboard run`, of a program that names none, and none."""
MAX_DEPTH = 100
"""The most levels of sessions: far more than limits allow."""
MAX_ALSO_WAITING = 10
"""Other open questions that are listed when one is answered."""

QuestionName = Annotated[
    str,
    Parameter(
        name="ID", completer=offered("questions"), help="The question's id, or the beginning of it."
    ),
]
GrantName = Annotated[
    str, Parameter(name="ID", help="The remembered answer's id, or the beginning of it.")
]
Edit = Annotated[
    bool, Parameter(help="Change the arguments first, in $VISUAL or $EDITOR.", negative=())
]
Arguments = Annotated[str | None, Parameter(help="Other arguments, all of them, as a JSON object.")]
Reason = Annotated[str, Parameter(help="Why; the model sees it.", show_default=False)]
Remember = Annotated[
    Literal["turn", "session", "agent", "always"] | None,
    Parameter(help="Answer such calls in the same way for this long."),
]
Pattern = Annotated[
    str | None,
    Parameter(help="With --remember: for the paths that this matches, such as notes/**."),
]


def approve(
    question: QuestionName,
    /,
    *,
    edit: Edit = False,
    arguments: Arguments = None,
    remember: Remember = None,
    pattern: Pattern = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Allow a call that waits, as it was asked about or with other arguments.

    With a daemon, or a chat or run that is one, the session goes on with it at once. Without one,
    nothing runs by this: `callboard run --continue` goes on. While a program of yours has the data
    folder, that program answers.
    """
    options = AnswerOptions(
        decision="allow", edits=edit, arguments=arguments, remember=remember, pattern=pattern
    )
    return _say(question, options, config, data)


def deny(
    question: QuestionName,
    /,
    *,
    reason: Reason = "",
    remember: Remember = None,
    pattern: Pattern = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Refuse a call that waits; --remember makes it "don't ask again".

    With a daemon, or a chat or run that is one, the model hears of it at once. Without one, when
    `callboard run --continue` goes on with the session. While a program of yours has the data folder,
    that program answers.
    """
    options = AnswerOptions(decision="deny", reason=reason, remember=remember, pattern=pattern)
    return _say(question, options, config, data)


def revoke(grant: GrantName, /, *, config: Config = None, data: Data = None) -> int:
    """Take a remembered answer back: such calls follow the policy again."""
    return trio.run(_revoke, grant, data_path(data), load_settings(config))


async def _revoke(name: str, data: Path, settings: Settings) -> int:
    async with open_record(data) as reader:
        grant = await find_grant(reader, name)
    if grant.revoked_at_ms is not None:
        raise ConflictError(f"The grant {grant.grant_id} is revoked already.")
    async with open_backend(data, settings=settings) as backend:
        await backend.revoke(grant.grant_id)
    async with open_record(data) as reader:
        grant = await find_grant(reader, grant.grant_id)
    sys.stdout.write(grant_line(grant))
    sys.stdout.write("Such calls follow the policy again: they run, ask or are denied.\n")
    return ANSWERED


def _say(question: str, options: AnswerOptions, config: Path | None, data: Path | None) -> int:
    if mistake := options.mistake():
        return wrong_usage(mistake, options.command)
    command = ApprovalCommand(data_path(data), load_settings(config), options_for(config, data))
    return trio.run(command.say, question, options)


class AnswerOptions(msgspec.Struct, frozen=True, kw_only=True):
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
        """Return the message about wrong options, or `None`."""
        if self.edits and self.arguments is not None:
            return "--edit and --arguments both say what the arguments are: leave one out"
        if self.pattern is not None and self.remember is None:
            return "--pattern goes with --remember: it says for which paths"
        return None


class AskedUnder(msgspec.Struct, frozen=True, kw_only=True):
    """The rules under which a question was asked, as far as they are known here.

    Attributes:
        channel: The name of its runtime's channel.
        unknown: Agents of its session, or of one above, that are not configured here.
        is_known: Whether these rules have the policy version that the question names.
        preset: What `--policy` must say, when that is not what is configured.
    """

    channel: str | None = TerminalChannel.name
    unknown: tuple[str, ...] = ()
    is_known: bool = False
    preset: str = ""

    @property
    def problem(self) -> str:
        """Why other arguments can't be judged here; empty when they can."""
        if self.unknown:
            return f"the agent {self.unknown[0]!r} is not configured here"
        return "" if self.is_known else "it was asked under other rules than those configured here"

    @property
    def warning(self) -> str:
        """A warning to whoever allows it; may be empty."""
        if self.unknown or self.is_known:
            return ""
        return (
            "It was asked under other rules than those configured here: if the session goes on under "
            "these, it is asked again."
        )


class ApprovalCommand:
    """Answers questions.

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
        self._daemon = find_daemon(data)

    async def say(self, name: str, options: AnswerOptions) -> int:
        """Answer the question that `name` means, and print what was stored and what is next.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It has its answer, has expired, or another process has the store.
            ValidationError: The answer can't be taken; the question stays open.
        """
        if options.edits:
            needs_terminal()
        async with open_record(self._data) as reader:
            row = await find_approval(reader, name)
            _check_waits(row)
            line = await _line(reader, row.session_id)
            asked = AskedUnder(is_known=True)  # a daemon judges by its own configuration
            if self._daemon is None:
                asked = await asked_under(reader, self._settings, row, line)
        self._check(options, row, asked)
        opening = open_backend(
            self._data,
            settings=self._settings,
            agents=[Agent(name=name) for name in asked.unknown],
            policy=Preset(asked.preset) if asked.preset else None,
            channel=_nobody(asked.channel),
        )
        async with opening as backend, open_record(self._data) as reader:
            # A question may have expired, or its process may have ended: that is on record by now.
            row = await find_approval(reader, row.approval_id)
            _check_waits(row)
            arguments = options.arguments
            if options.edits:
                request = await backend.approval(row.approval_id)
                arguments = await edited_at_terminal(
                    row,
                    request,
                    self._data,
                    lambda text: backend.approval(row.approval_id, arguments=text),
                )
            answer = ApprovalAnswer(
                decision=options.decision,
                arguments=arguments,
                remember=options.remember,
                reason=options.reason,
                answered_by=ANSWERED_BY,
                pattern=options.pattern,
            )
            try:
                await backend.answer(row.approval_id, answer)
            except ValidationError as error:
                raise ValidationError(
                    f"{str(error).rstrip('.')}. Nothing was answered: {row.approval_id} still "
                    "waits.",
                    field=error.field,
                ) from error
            sys.stdout.write(await self._result(reader, row, asked, line[-1].session_id))
        return ANSWERED

    def _check(self, options: AnswerOptions, row: ApprovalRow, asked: AskedUnder) -> None:
        """Refuse what the record alone can't answer, before anything is opened."""
        tool = safe_line(row.tool)
        changes = options.edits or options.arguments is not None
        if self._daemon is not None or (not changes and options.remember is None):
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

    async def _result(
        self, store: StoreReader, row: ApprovalRow, asked: AskedUnder, main_id: str
    ) -> str:
        """Return the question with its answer, what is remembered, what else waits, and what is next."""
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
            when = "when the session goes on, it is asked again, as a question of its own."
            if again is not None:
                when = f"it is asked again as {again.approval_id}."
            lines.append(
                f"The changed arguments make it more dangerous than what was asked about: {when}\n"
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
        return " ".join(map(shell_word, [*words, *self._options]))


def options_for(config: Path | None, data: Path | None) -> tuple[str, ...]:
    """Return the options that a later command needs to find the same files."""
    named = [] if config is None else ["--config", str(config)]
    if data is not None and data.expanduser().absolute() != data_folder():
        named += ["--data", str(data)]
    return tuple(named)


def _check_waits(row: ApprovalRow) -> None:
    if row.state == "waiting":
        return
    by = f" by {safe_line(row.answered_by)}" if row.answered_by else ""
    raise ConflictError(
        f"The question {row.approval_id} is not open: it is {row.state}{by}. "
        f"`callboard approvals {row.approval_id}` shows it."
    )


async def _line(reader: StoreReader, session_id: str) -> list[SessionRow]:
    """Return the session and those above it; the last one is the main one, which a person goes on with."""
    line: list[SessionRow] = []
    above: str | None = session_id
    while above is not None and len(line) < MAX_DEPTH:
        row = await reader.session(above)
        if row is None:
            raise NotFoundError(f"The session {above} is gone.")
        line.append(row)
        above = row.parent_id
    return line


async def asked_under(
    reader: StoreReader, settings: Settings, row: ApprovalRow, line: Sequence[SessionRow]
) -> AskedUnder:
    """Find the preset and the channel that give the policy version which the question names.

    Args:
        reader: The record.
        settings: The configuration.
        row: The question.
        line: Its session, and those above it in their order.
    """
    agents = agents_of(settings, (), None)
    unknown = tuple(each.agent for each in line if each.agent not in agents)
    if unknown:
        return AskedUnder(unknown=unknown)
    own = agents[line[-1].agent].policy
    presets = (None, *(preset for preset in Preset if preset is not own))
    for preset, channel in product(presets, CHANNELS):
        agents = agents_of(settings, (), preset)
        if await _version(reader, settings, agents, channel, row, line[0]) == row.policy_version:
            said = "" if preset is None else preset.value
            return AskedUnder(channel=channel, is_known=True, preset=said)
    return AskedUnder()


async def _version(
    reader: StoreReader,
    settings: Settings,
    agents: Mapping[str, Agent],
    channel: str | None,
    row: ApprovalRow,
    session: SessionRow,
) -> str:
    """Return the version of the policy that holds for the question's session under these."""
    channels = Channels(_nobody(channel))
    tree = Lineage(reader, agents, channels)
    lineage = await tree.above(session.parent_id)
    place = CallPlace(
        session_id=row.session_id,
        turn_id=row.turn_id,
        agent=await tree.agent_of(session, lineage),
        session_kind=session.kind,
        workspace=session.workspace,
        channel=channels.own(session.kind),
        lineage=lineage,
    )
    question = PermissionQuestion(
        call_id=row.call_id,
        name=row.tool,
        tier=row.tier,
        arguments=row.arguments,
        approval_reason=row.reason,
    )
    policies = SessionPolicies(
        PolicyBook(settings.rules, search_places(settings.search), settings.network.auto)
    )
    return policies.of(place).decision(question).policy_version


def _nobody(name: str | None) -> Channel | None:
    """Return a channel of this name at which nobody sits: what is asked there waits on record."""
    if name is None:
        return None
    channel = Channel()
    channel.name, channel.is_connected = name, False
    return channel
