"""The commands and their options; what they do is imported when they run."""

import difflib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnusedCliTokensError

from ..runtime.identity import VERSION
from .data_path import expanded
from .exit_codes import ANSWERED
from .hints import note_options
from .parameters import Config, Data
from .run.flags import RunFlags
from .terminal.complaint import wrong_usage

if TYPE_CHECKING:
    from .help_page import HelpPage


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known option that is most like this one; `None` when none is."""
    if len(name) == 2:  # one letter: the option that begins with it
        return next((option for option in known if option.startswith(f"-{name}")), None)
    from ..runtime.text import MIN_LIKENESS

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

Prompt = Annotated[
    str | None,
    Parameter(
        help="What to do; without it, or with -, it is what comes on stdin. With --continue it may be "
        "left out.",
        allow_leading_hyphen=True,
    ),
]
How = Annotated[RunFlags | None, Parameter(name="*")]
Verbose = Annotated[
    bool,
    Parameter(
        help="Say more on the way: each request, its time, tokens and cost, why calls ran; and the log.",
        negative=(),
    ),
]

COMMANDS = {
    "keys": ("setup.keys", "Store, list and remove the keys of providers."),
    "providers": (
        "setup.providers",
        "List, test, add, change, remove and switch off providers of models.",
    ),
    "models": ("setup.models", "List the models of providers, and choose the default."),
    "agents": ("setup.agents", "List, show, make, change, copy and delete agents."),
    "hooks": (
        "setup.hooks",
        "List, make, change, pause and remove hooks, test webhooks, and send again what nobody took.",
    ),
    "schedule": (
        "setup.schedules",
        "List, make, change, pause, run and remove schedules: prompts that are sent by themselves.",
    ),
    "settings": ("setup.settings", "List the settings in force, and set some of them."),
    "policy": ("policy.check", "Explain and check the rules that decide which calls may run."),
    "approvals": (
        "approvals.list",
        "List the questions that wait for a person, or show one in full.",
    ),
    "approve": (
        "approvals.answers",
        "Allow a call that waits, as it was asked about or with other arguments.",
    ),
    "deny": (
        "approvals.answers",
        'Refuse a call that waits; --remember makes it "don\'t ask again".',
    ),
    "grants": ("approvals.list", "List the answers that are remembered, and take them back."),
    "token": ("setup.tokens", "Make, list and end the tokens with which clients connect."),
    "memory": ("setup.memories", "List, search and take back what sessions remember."),
    "mcp": (
        "mcp.commands",
        "Add, review, test and remove servers of the Model Context Protocol.",
    ),
    "skills": ("setup.skills", "List skills, and approve those of a workspace."),
    "chat": ("chat.chat", "Talk with a model at the terminal; /help lists what can be typed."),
    "acp": (
        "acp.acp",
        "Let an editor drive callboard, by the Agent Client Protocol.",
    ),
    "attach": (
        "chat.attach",
        "Show what happens in a session of the daemon, from the beginning of the turn that runs.",
    ),
    "sessions": ("show.sessions", "List the sessions of this folder, or of all folders."),
    "show": ("show.sessions", "Print one session as Markdown, or its events as JSON."),
    "usage": (
        "show.usage",
        "Sum up what model calls took, in tokens, and cost, at present prices.",
    ),
    "tools": (
        "show.tools",
        "List the tools that a model can ask for, and the plugins that are installed.",
    ),
    "tool": ("run.tool", "Show a tool as models get it, or call one without a model."),
    "session": (
        "store.sessions",
        "Search, rename, fork, delete and restore sessions; export and import.",
    ),
    "undo": (
        "store.undo",
        "Take back what the calls of a session changed in files, the latest change first.",
    ),
    "replay": (
        "store.replay",
        "Run a session again from its record, and say whether the same comes out.",
    ),
    "backup": (
        "store.store",
        "Copy all sessions into one file, as of one moment, also while a daemon works with them.",
    ),
    "restore": (
        "store.store",
        "Replace all sessions by those of a backup; the replaced ones are kept beside them.",
    ),
    "upgrade": ("store.store", "Convert the store of an older callboard, after a backup of it."),
    "compact": ("store.store", "Give back the disk space that purged sessions left in the store."),
    "store": ("store.store", "What to do about a store that is damaged, or not wanted any more."),
    "doctor": (
        "doctor.doctor",
        "Test what callboard needs of this machine, and say what to do where something is missing.",
    ),
    "serve": (
        "daemon.commands",
        "Run the daemon in the foreground: its sessions go on when no client is connected.",
    ),
    "status": ("daemon.status", "Say whether a daemon runs, where, and what it does."),
    "console": ("daemon.console", "Open the web console of the daemon in a browser, logged in."),
    "stop": ("daemon.stop", "End the daemon in order, and wait until it has ended."),
    "logs": ("daemon.logs", "Print the end of the log."),
    "service": (
        "daemon.service",
        "Have the system keep a daemon running: systemd, or launchd on macOS.",
    ),
    "cluster": (
        "cluster.commands",
        "Show and drain the nodes that share a store, and have systemd, Kubernetes or Ray run them.",
    ),
    "completion": ("completion", "Print the completion script of a shell, or put it in place."),
    "protocol": ("daemon.commands", "List the daemon's methods and the role that each takes."),
}
"""The module of each command, which has a function or an `App` of that name, and its line in the list
of commands. The module is imported when its command is named; the list imports none."""


def _version() -> str:
    return f"callboard {VERSION}"


class _LazyHelpPage:
    """The format of help pages, which is imported when one is printed."""

    @cached_property
    def _page(self) -> "HelpPage":
        from .help_page import HelpPage

        return HelpPage()

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        self._page(console, options, panel)

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        self._page.render_usage(console, options, usage)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        self._page.render_description(console, options, description)


def _app(named: str = "", *, is_help: bool = False) -> App:
    """Return the parser; the command that is `named` has its own help, which is longer than its line."""
    parser = App(
        name="callboard",
        help="A runtime for AI agents: it runs the tools that a model asks for, and keeps a record.\n\n"
        "At a terminal, callboard without a command is callboard chat. COMMAND --help says what it takes.",
        version=_version,
        help_formatter=_LazyHelpPage(),
    )
    places: Mapping[str, Mapping[str, Any]] = {}
    if is_help:
        from .help_page import OPTIONS, PLACES

        places = PLACES
        for flag in ("--help", "--version"):
            parser[flag].group = OPTIONS
    # A command that is named needs no other: `run` alone takes longer to read than all that another one does.
    is_all = is_help or not (named in COMMANDS or named in _HERE)
    for name in (*COMMANDS, *_HERE) if is_all else (named,):
        place = places.get(name, {})
        if name in _HERE:
            parser.command(_HERE[name], **place)
        else:
            module, line = COMMANDS[name]
            path, text = f"{__package__}.{module}:{name}", None if name == named else line
            parser.command(path, name=name, help=text, **place)
    return parser


def complete_parser() -> App:
    """Return the parser of all commands, for what is made of them."""
    return _app()


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


def record(
    prompt: Prompt = None,
    /,
    *,
    flags: How = None,
    config: Config = None,
    data: Data = None,
    verbose: Verbose = False,
) -> int:
    """Do as run does, and record what providers answer in DATA/recordings/SESSION.jsonl.

    The file holds requests and answers in clear text; only keys are masked. Exits as run does.
    """
    return _run("record", prompt, flags or RunFlags(), config, data, verbose=verbose)


_HERE: Mapping[str, Callable[..., int]] = {"run": run, "record": record}


def execute(tokens: Sequence[str]) -> int:
    """Parse a command line, run its command and return the exit code.

    Raises:
        CallboardError: The command failed.
    """
    if tokens and tokens[0] in {"help", "version"}:  # as programs of this kind have it
        tokens = [*tokens[1:], "--help"] if tokens[0] == "help" else ["--version"]
    command: Callable[..., Any]
    own = {"--help", "-h", "--version"}
    note_options({})
    is_chat = not tokens or (tokens[0].startswith("-") and not own & {*tokens})
    if is_chat and os.isatty(0) and os.isatty(1):  # a person sits there
        tokens = ["chat", *tokens]
    is_help = not tokens or bool({"--help", "-h"} & {*tokens})
    app = _app(tokens[0] if tokens else "", is_help=is_help)
    if is_help:
        from .help_page import name_arguments

        name_arguments(app, tokens)
    try:
        command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        if list(tokens[:2]) == ["keys", "set"] and len(tokens) > 2:
            return wrong_usage(NO_KEY_ON_THE_LINE, "keys set")  # a key may stand in `tokens`
        message = _unknown_option(app, tokens) or _explained(app, error, tokens)
        return wrong_usage(message.replace("?.", "?"), _command_of(app, tokens))
    # cyclopts takes any word in the prompt's place; a mistyped option is not a prompt.
    is_prompt = command in {run, record} and bool(bound.args)
    is_option = is_prompt and str(bound.args[0]).startswith("-")
    if is_option and (unknown := _unknown_option(app, tokens)):
        return wrong_usage(unknown, tokens[0])
    bound.arguments.update({name: expanded(given) for name, given in bound.arguments.items()})
    note_options(bound.kwargs)
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else ANSWERED


def _take_stdin(prompt: str | None, flags: RunFlags) -> tuple[str | None, bytes | None, bool]:
    """Return the prompt, the file that is piped in beside it, and whether any of it was piped."""
    from ..runtime.history import MAX_ATTACHED_BYTES
    from .run.stdin import is_piped, read_prompt, read_stdin

    if flags.again is not None:
        return prompt, None, False
    piped, is_attached = is_piped(), any(str(path) == "-" for path in flags.attach)
    if prompt == "-" and not is_attached:
        return read_prompt(), None, piped
    if prompt is None and piped and not is_attached:
        return read_prompt() or None, None, True
    if prompt not in {None, "-"} and (piped or is_attached):
        data = read_stdin(MAX_ATTACHED_BYTES, "what is attached")
        return prompt, data if data or is_attached else None, bool(data)
    return prompt, None, False


def _prompt_mistake(prompt: str | None, flags: RunFlags) -> str | None:
    if prompt == "-" and any(str(path) == "-" for path in flags.attach):
        return "stdin is the prompt or the file, not both: give the PROMPT in words"
    if flags.again is not None and (prompt, flags.budget) != (None, None):
        return (
            f"--{flags.again} runs the last prompt again, as it was: give no other, and no --budget"
        )
    if prompt is None:
        if not flags.resume:
            return "PROMPT is missing: say what to do"
        if flags.answer_schema is not None:
            return "--answer-schema goes with a prompt"
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
    from ..runtime.text import without_surrogates
    from .run.answer import check_output, read_schema
    from .run.attachments import read_attachments
    from .run.choice import RunOptions

    if mistake := flags.mistake():
        return wrong_usage(mistake, command)
    if flags.output is not None:
        check_output(flags.output)
    prompt, piped, is_piped = _take_stdin(prompt, flags)
    prompt = prompt and without_surrogates(prompt)
    if mistake := _prompt_mistake(prompt, flags):
        return wrong_usage(mistake, command)
    files = tuple(path for path in flags.attach if str(path) != "-")
    form = None if flags.answer_schema is None else read_schema(flags.answer_schema)
    options = RunOptions(
        prompt=prompt,
        flags=flags,
        attachments=read_attachments(files, piped),
        is_piped=is_piped,
        piped_bytes=len(piped or b""),
        is_recorded=command == "record",
        is_verbose=verbose,
        config=config,
        answer_schema=form,
    )
    from .run.run import start

    return start(options, data, verbose=verbose)


def _explained(app: App, error: CycloptsError, tokens: Sequence[str]) -> str:
    if isinstance(error, UnusedCliTokensError):
        from ..runtime.text import did_you_mean  # here: few command lines are wrong

        path, group = _named(app, tokens)
        names, said = _subcommands(group), tokens[len(path)] if len(tokens) > len(path) else ""
        meant = did_you_mean(said, names) if names else ""
        if tokens[0] == "providers" and len(tokens) > 2:
            # A key may be among the words, so none of them is said.
            return f"there is no such command.{meant}" if meant else KEY_ELSEWHERE
        if meant:
            return f"there is no command {said!r}.{meant}"
        extra = " ".join(error.unused_tokens or ())
        hint = "; put a prompt of several words in quotes" if tokens[0] in {"run", "record"} else ""
        return f"there is no place for {extra!r}{hint}"
    if tokens and " " in tokens[0]:
        return "a prompt stands behind a command, as in `callboard run PROMPT` or `callboard chat PROMPT`"
    known = [*COMMANDS, *_HERE]
    if isinstance(error, UnknownCommandError) and tokens[0] not in known:
        from .habits import unknown_command  # here: a command that there is needs it not

        return unknown_command(tokens[0], known)
    return str(error)


def _unknown_option(app: App, tokens: Sequence[str]) -> str | None:
    """Return the message about the first option that the command does not have, if there is one."""
    path, command = _named(app, tokens)
    if not path or _subcommands(command):
        return None
    known = [
        name
        for argument in command.assemble_argument_collection()
        for name in argument.names
        if name.startswith("-")
    ] + ["--help", "-h", "--version"]
    for token in itertools.takewhile(lambda token: token != "--", tokens[len(path) :]):
        name = token.partition("=")[0]
        if len(name) > 1 and name.startswith("-") and name not in known:
            break
    else:
        return None
    message = f'Unknown option: "{name}".'
    if tokens[0] in {"run", "record", "chat"}:
        from .habits import OPTIONS

        if name in OPTIONS:
            return f"{message} Here it is `{OPTIONS[name]}`."
    if close := closest(name, known):
        return f'{message} Did you mean "{close}"?'
    if tokens[0] in {"run", "record"}:
        return f"{message} Put -- before a prompt that begins with a hyphen."
    return message


def _named(app: App, tokens: Sequence[str]) -> tuple[list[str], App]:
    """Return the words that name a command, those of its groups before it, and the command."""
    path: list[str] = []
    for token in tokens:
        if token.startswith("-") or token not in app:
            break
        path.append(token)
        app = app[token]
    return path, app


def _subcommands(app: App) -> frozenset[str]:
    """Return the commands of a group such as `keys`; a command that stands alone has none."""
    return frozenset(each for each in app if not each.startswith("-"))


def _command_of(app: App, tokens: Sequence[str]) -> str:
    """Return the command that a line names, with those of its groups, or nothing."""
    return " ".join(_named(app, tokens)[0])
