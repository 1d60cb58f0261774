"""The commands and their options; what they do is imported when they run."""

from __future__ import annotations

import difflib
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from .approvals import commands as approval_commands
from .chat import commands as attach_command
from .chat import commands as chat_command
from .daemon import commands as daemon_commands
from .exit_codes import ANSWERED, USAGE
from .parameters import Config, Data, Json, data_path, named_data_path
from .policy import commands as policy_commands
from .run.flags import RunFlags
from .setup import commands as setup_commands
from .store import session_commands, store_commands
from .terminal.complaint import complain

MIN_LIKENESS = 0.7
"""How like the suggested option a mistyped one is: two letters may be wrong, not half of them."""


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known option that is most like this one; `None` when none is."""
    if len(name) == 2:  # one letter: the option that begins with it
        return next((option for option in known if option.startswith(f"-{name}")), None)
    return next(iter(difflib.get_close_matches(name, known, 1, MIN_LIKENESS)), None)


NO_KEY_ON_THE_LINE = (
    "`callboard keys set` takes the name of a provider, --config and --data, and never the key, "
    "which would stand in the shell's history and in the list of processes: it is asked for, or "
    "read from stdin."
)

KEY_ELSEWHERE = (
    "there is one name, and options; a key is stored with `callboard keys set`, and never given "
    "on the command line"
)

MAX_PROMPT_BYTES = 4 * 1024 * 1024
"""A prompt from stdin at most: more than any model's window."""

Prompt = Annotated[
    str | None,
    Parameter(
        help="What to do; - reads it from stdin. With --continue it may be left out.",
        allow_leading_hyphen=True,
    ),
]
How = Annotated[RunFlags | None, Parameter(name="*")]
Verbose = Annotated[bool, Parameter(help="Print the log to stderr.", negative=())]
Limit = Annotated[int, Parameter(help="How many, the latest first.")]
Every = Annotated[
    bool, Parameter(name="--all", help="Those that sessions gave tasks to, too.", negative=())
]
Deleted = Annotated[
    bool, Parameter(help="Those that are deleted; `session restore` takes it back.", negative=())
]
By = Annotated[
    Literal["call", "turn", "session", "agent", "model", "day"] | None,
    Parameter(help="What makes one sum: session, and turn for one session, by default."),
]
Since = Annotated[
    str | None, Parameter(help="Only since then: 30d, 12h, 2w, or a day like 2026-01-31.")
]
SessionName = Annotated[str, Parameter(help="Its id, the beginning of it, or last.")]
SessionChoice = Annotated[
    str | None, Parameter(help="One session: its id, the beginning of it, or last.")
]


def _version() -> str:
    from importlib.metadata import version

    return f"callboard {version('callboard')}"


app = App(
    name="callboard",
    help="A runtime for AI agents: it runs the tools that a model asks for, and keeps a record.",
    version=_version,
    help_formatter="plain",
)
app.command(setup_commands.keys)
app.command(setup_commands.providers)
app.command(setup_commands.models)
app.command(policy_commands.policy)
app.command(approval_commands.approvals)
app.command(approval_commands.approve)
app.command(approval_commands.deny)
app.command(approval_commands.grants)
app.command(setup_commands.memory)
app.command(setup_commands.skills)
app.command(store_commands.undo)
app.command(attach_command.attach)
app.command(daemon_commands.protocol)
app.command(setup_commands.token)
app.command(session_commands.session)
app.command(store_commands.backup)
app.command(store_commands.restore)
app.command(store_commands.replay)
app.command(store_commands.upgrade)
app.command(store_commands.compact)
app.command(chat_command.chat)
app.command(daemon_commands.serve)
app.command(daemon_commands.status)
app.command(daemon_commands.stop)
app.command(daemon_commands.logs)
app.command(daemon_commands.service)


@app.command
def run(
    prompt: Prompt = None,
    /,
    *,
    flags: How = None,
    config: Config = None,
    data: Data = None,
    verbose: Verbose = False,
) -> int:
    """Send a prompt to a model and run the tools that it asks for.

    With --continue and without a prompt it goes on with what was left: a turn that was
    suspended, calls that were answered meanwhile.

    Exits with 0 when it was answered, 1 when it failed, 2 when the command line can't
    be read, and 130 when it was interrupted.
    """
    return _run("run", prompt, flags or RunFlags(), config, data, verbose=verbose)


@app.command
def record(
    prompt: Prompt = None,
    /,
    *,
    flags: How = None,
    config: Config = None,
    data: Data = None,
    verbose: Verbose = False,
) -> int:
    """Do as run does, and keep what providers answer, in DATA/recordings/SESSION.jsonl.

    What was asked and what came stands in that file in clear, but for keys, which are masked.
    Exits as run does.
    """
    return _run("record", prompt, flags or RunFlags(), config, data, verbose=verbose)


@app.command
def tools(*, json: Json = False, config: Config = None) -> int:
    """List the tools that a model can ask for, and the plugins that are installed."""
    from .show.tools import show_tools

    return show_tools(config, json=json)


@app.command
def doctor(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Test what callboard needs of this machine, and say what to do where something is missing.

    Exits with 1 when there is a problem, or the sandbox is weaker than the configuration wants.
    """
    from .doctor.doctor import show_doctor

    return show_doctor(config, named_data_path(data), json=json)


@app.command
def sessions(
    *,
    json: Json = False,
    limit: Limit = 20,
    every: Every = False,
    deleted: Deleted = False,
    data: Data = None,
) -> int:
    """List the sessions on record."""
    from .show.sessions import show_sessions

    if limit < 1:
        return _wrong_usage("--limit is at least 1", "sessions")
    folder = data_path(data)
    return show_sessions(folder, limit=limit, json=json, all_kinds=every, deleted=deleted)


@app.command
def show(session: SessionName, /, *, json: Json = False, data: Data = None) -> int:
    """Print one session as Markdown, or its events as JSON."""
    from .show.sessions import show_session

    return show_session(data_path(data), session, json=json)


@app.command
def usage(
    session: SessionChoice = None,
    /,
    *,
    by: By = None,
    since: Since = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Sum up what model calls took, in tokens, and cost, at present prices."""
    from ..config.files import load_settings
    from ..runtime.errors import ValidationError
    from .show.usage import begin_of, show_usage

    try:
        since_ms = begin_of(since)
    except ValidationError as error:
        return _wrong_usage(str(error), "usage")
    settings = load_settings(config)
    return show_usage(data_path(data), settings, session, by=by, since_ms=since_ms, json=json)


def execute(tokens: Sequence[str]) -> int:
    """Parse a command line, run its command and return the exit code.

    Raises:
        CallboardError: The command failed.
    """
    command: Callable[..., Any]
    if not tokens and chat_command.is_wanted_alone():
        return chat_command.chat()
    try:
        command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        if list(tokens[:2]) == ["keys", "set"] and len(tokens) > 2:
            return _wrong_usage(NO_KEY_ON_THE_LINE, "keys set")  # one may stand in `tokens`
        message = _unknown_option(tokens) or _explained(error, tokens)
        return _wrong_usage(message.replace("?.", "?"), _command_of(tokens))
    # cyclopts takes any word in the prompt's place; a mistyped option is no prompt.
    is_prompt = command in {run, record} and bool(bound.args)
    is_option = is_prompt and str(bound.args[0]).startswith("-")
    if is_option and (unknown := _unknown_option(tokens)):
        return _wrong_usage(unknown, tokens[0])
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else ANSWERED


def _prompt_mistake(prompt: str | None, flags: RunFlags) -> str | None:
    if prompt is None:
        if not flags.resume:
            return "PROMPT is missing: say what to do"
        return "--attach goes with a prompt" if flags.attach else None
    return None if prompt.strip() else "the prompt is empty: say what to do"


def _run(
    command: str,
    prompt: str | None,
    flags: RunFlags,
    config: Path | None,
    data: Path | None,
    *,
    verbose: bool,
) -> int:
    from .run.attachments import read_attachments
    from .run.choice import RunOptions

    prompt = _read_prompt() if prompt == "-" else prompt
    if mistake := _prompt_mistake(prompt, flags) or flags.mistake():
        return _wrong_usage(mistake, command)
    options = RunOptions(
        prompt=prompt,
        flags=flags,
        attachments=read_attachments(flags.attach),
        is_recorded=command == "record",
    )
    from ..config.files import load_settings
    from ..runtime.disk.core_dumps import forbid_core_dumps
    from ..runtime.errors import NotFoundError
    from .log_file import start_logging, wants_log_on_terminal
    from .run.run import run as run_prompt

    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise NotFoundError(
            "The current folder was deleted: change to one that is there."
        ) from error
    forbid_core_dumps()
    settings = load_settings(config)
    folder = data_path(data)
    start_logging(folder, verbose=verbose or wants_log_on_terminal())
    return run_prompt(options, settings, folder)


def _read_prompt() -> str:
    data = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1) if sys.stdin is not None else b""
    from ..runtime.errors import ValidationError

    if len(data) > MAX_PROMPT_BYTES:
        raise ValidationError(f"the prompt on stdin is longer than {MAX_PROMPT_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValidationError(f"the prompt on stdin is not UTF-8: {error}") from error


def _explained(error: CycloptsError, tokens: Sequence[str]) -> str:
    if isinstance(error, UnusedCliTokensError):
        if tokens[0] == "providers" and len(tokens) > 2:
            return KEY_ELSEWHERE  # one may be among the unused words
        extra = " ".join(error.unused_tokens or ())
        hint = (
            "; a prompt of several words stands in quotes" if tokens[0] in {"run", "record"} else ""
        )
        return f"there is no place for {extra!r}{hint}"
    return str(error)


def _unknown_option(tokens: Sequence[str]) -> str | None:
    """Return the message about the first option that the command does not have, if there is one."""
    if not tokens or not _is_command(tokens[0]) or _subcommands(tokens[0]):
        return None
    known = [
        name
        for argument in app[tokens[0]].assemble_argument_collection()
        for name in argument.names
        if name.startswith("-")
    ] + ["--help", "-h", "--version"]
    for token in itertools.takewhile(lambda token: token != "--", tokens[1:]):
        name = token.partition("=")[0]
        if len(name) > 1 and name.startswith("-") and name not in known:
            break
    else:
        return None
    message = f'Unknown option: "{name}".'
    if close := closest(name, known):
        return f'{message} Did you mean "{close}"?'
    if tokens[0] in {"run", "record"}:
        return f"{message} A prompt that begins with a hyphen stands behind --."
    return message


def _is_command(name: str) -> bool:
    return not name.startswith("-") and name in app


def _subcommands(name: str) -> frozenset[str]:
    """Return the commands of a group such as `keys`; a command that stands alone has none."""
    if not _is_command(name):
        return frozenset()
    return frozenset(each for each in app[name] if not each.startswith("-"))


def _command_of(tokens: Sequence[str]) -> str:
    """Return the command that a line names, with that of its group."""
    first, second = (*tokens[:2], "", "")[:2]
    return f"{first} {second}" if second in _subcommands(first) else first


def _wrong_usage(message: str, command: str) -> int:
    known = command if _is_command(command.split(" ")[0]) else ""
    help_command = f"callboard {known} --help" if known else "callboard --help"
    end = "" if message.endswith(("?", ".")) else "."
    complain(f"{message}{end} See: {help_command}")
    return USAGE
