"""`callboard tool`: shows one tool as models get it, and calls one without a model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import trio
from cyclopts import App, Parameter

from ...config.files import load_settings
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.text import did_you_mean
from ...runtime.turns.called_tool import given_calls
from ...tools.builtin import builtin_tools
from ...tools.plugins import load_plugins
from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Json, Verbose, offered
from ..show.tools import tools as list_tools
from ..terminal.complaint import wrong_usage
from ..terminal.escaping import safe_json
from .choice import RunOptions
from .flags import RunFlags
from .stdin import read_prompt

ToolName = Annotated[str, Parameter(completer=offered("tools"), help="The tool's name.")]
Arguments = Annotated[
    str,
    Parameter(
        help='Its arguments as JSON, as in \'{"path": "."}\'; - is stdin.',
        allow_leading_hyphen=True,
    ),
]
_NOT_ITS_OWN = Parameter(negative=(), show=False)


@dataclass(frozen=True)
class CallFlags(RunFlags):
    """The options of `run`; the help leaves out those that a call does not take, and they are refused."""

    attach: Annotated[tuple[Path, ...], _NOT_ITS_OWN] = ()
    answer_schema: Annotated[Path | None, _NOT_ITS_OWN] = None
    retry: Annotated[bool, _NOT_ITS_OWN] = False
    regenerate: Annotated[bool, _NOT_ITS_OWN] = False


How = Annotated[CallFlags | None, Parameter(name="*")]

tool = App(name="tool", help="Show a tool as models get it, or call one without a model.")
tool.command(list_tools, name="list")


@tool.command(name="show")
def show_tool(name: ToolName, /, *, json: Json = False, config: Config = None) -> int:
    """Show what a tool does, what it takes and what it returns."""
    loaded = {each.name: each.load().definition for each in builtin_tools()}
    settings = load_settings(config)
    brought = trio.run(load_plugins, settings.plugins, [*loaded])
    known = loaded | {each.name: each.definition for each in brought.tools}
    if settings.mcp:
        from ...tools.mcp.tool import accepted_tools  # here: most people have no server

        known |= {each.name: each.definition for each in accepted_tools(settings.mcp)}
    if (found := known.get(name)) is None:
        close = did_you_mean(name, known)
        raise NotFoundError(f"there is no tool {name!r}.{close} `callboard tools` lists them.")
    whole = msgspec.json.format(msgspec.json.encode(found), indent=0 if json else 2)
    sys.stdout.write(f"{safe_json(whole.decode())}\n")
    return ANSWERED


@tool.command(name="call")
def call_tool(
    name: ToolName,
    /,
    *,
    arguments: Arguments = "{}",
    flags: How = None,
    config: Config = None,
    data: Data = None,
    verbose: Verbose = False,
) -> int:
    """Call a tool, as a model would: policy, questions, limits and the record hold as in a run.

    Prints the outcome as JSON: status, output or error, artifacts. With --continue it is a call
    of a session that there is. Exits with 0 when it succeeded, and 1 when it did not.
    """
    from .run import start  # here: the other commands need no turn

    flags = flags or CallFlags()
    if mistake := flags.mistake() or _no_prompt(flags):
        return wrong_usage(mistake, "tool call")
    calls = given_calls([(name, _object(arguments))])
    if flags.model is None and flags.base_url is None:
        flags = replace(flags, model="rehearsal")  # none is asked, and one must be named
    options = RunOptions(prompt=None, flags=flags, calls=calls, config=config)
    return start(options, data, verbose=verbose)


def _no_prompt(flags: CallFlags) -> str | None:
    if flags.attach or flags.answer_schema is not None:
        return "--attach and --answer-schema are for a model, and none is asked"
    if flags.again is not None:
        return f"--{flags.again} runs a turn again, and this is a call"
    return None


def _object(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(read_prompt() if text == "-" else text)
    except msgspec.DecodeError as error:
        why = f"--arguments is not JSON: {error}"
        raise ValidationError(f"{why}; nothing was called.", field="arguments") from error
    if not isinstance(found, dict):
        raise ValidationError(
            '--arguments is a JSON object, as in \'{"path": "."}\'; nothing was called.',
            field="arguments",
        )
    return found
