"""Shell completion: the script of a shell, and the values that it asks for when Tab is pressed.

cyclopts writes the scripts. What is not known when one is written (sessions, questions, models) comes from
functions here, which the script calls through `callboard __complete`. They read what lies on this
machine, take no lock, ask nobody, and offer nothing where that fails.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import trio
from cyclopts import Parameter
from msgspec.structs import replace

from ..config.files import load_settings
from ..runtime.store.interface import StoreReader
from ..runtime.store.sqlite_store import open_reader
from .exit_codes import ANSWERED
from .parameters import named_data_path
from .record_names import folder_here, folders_of
from .terminal.escaping import safe_line, shortened

MAX_OFFERED = 100
"""Values that are offered at most; more would not be read."""
MAX_SAID_CHARS = 60

_ZSH_NAME = "_callboard"
"""As functions of zsh that complete a command are called, and the files that have them."""
_ZSH_EARLIER_NAME = "_cyclopts_callboard"
"""As the parser calls it, and as versions before this one installed it."""
_ZSH_END = f"""
if [[ $funcstack[1] == {_ZSH_NAME} ]]; then
  {_ZSH_NAME} "$@"
elif (( $+functions[compdef] )); then
  compdef {_ZSH_NAME} callboard
fi
"""
"""So the printed script also works when it is sourced, and in a file of this name in the fpath."""

Offer = Iterable[tuple[str, str]]
Shell = Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")]
Install = Annotated[
    bool,
    Parameter(
        help="Write it where the shell finds it, and add it to the shell's startup file.",
        negative=(),
    ),
]


def completion(shell: Shell, /, *, install: Install = False) -> int:
    """Print the completion script of a shell, or put it in place."""
    from .app import complete_parser

    parser = complete_parser()
    script = parser.generate_completion(shell=shell)
    if shell == "zsh":
        script = script.replace(_ZSH_EARLIER_NAME, _ZSH_NAME) + _ZSH_END
    if install:
        path = parser.install_completion(shell=shell, add_to_startup=shell != "zsh")
        if shell == "zsh":
            path.unlink()
            path = path.with_name(_ZSH_NAME)
            path.write_text(script)
            _start_in_zsh(path)
        sys.stdout.write(f"installed: {safe_line(str(path))}\nIt holds in new shells.\n")
    else:
        sys.stdout.write(script)
    return ANSWERED


def _start_in_zsh(script: Path) -> None:
    """Have new shells load the script, also where the startup file runs compinit before, or never."""
    startup = Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc"
    before = startup.read_text() if startup.exists() else ""
    lines = _zsh_lines(script)
    text = before.replace(_zsh_lines(script.with_name(_ZSH_EARLIER_NAME)), "")
    text = text if lines in text else text + lines
    if text != before:
        startup.write_text(text)


def _zsh_lines(script: Path) -> str:
    name, folder = script.name, shlex.quote(str(script.parent))
    return f"""
# callboard completion
fpath=({folder} $fpath)
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit -i; }}
autoload -Uz {name} && compdef {name} callboard
"""


# ── what is offered ──────────────────────────────────────────────────────────────────────────────


def sessions(context: Any) -> Offer:
    """Offer the sessions of this folder, or those whose ids begin as what is typed; and `last`."""

    async def read(reader: StoreReader) -> Offer:
        folder = None if context.incomplete else folder_here()
        wanted = replace(folders_of(folder), words=context.incomplete, limit=MAX_OFFERED)
        page = await reader.session_page(wanted)
        return [("last", ""), *((row.session_id, row.title) for row in page.sessions)]

    return _said(trio.run(_read, context, read))


def questions(context: Any) -> Offer:
    """Offer the questions that wait."""

    async def read(reader: StoreReader) -> Offer:
        rows = await reader.approvals(state="waiting", limit=MAX_OFFERED)
        return [(row.approval_id, f"{row.tool} {row.arguments}") for row in rows]

    return _said(trio.run(_read, context, read))


def agents(context: Any) -> Offer:
    """Offer the agents."""
    del context
    return _said((name, "") for name in ("general", *load_settings().agents) if name)


def schedules(context: Any) -> Offer:
    """Offer the schedules."""
    del context
    return _said((name, its.prompt) for name, its in sorted(load_settings().schedules.items()))


def hooks(context: Any) -> Offer:
    """Offer the hooks."""
    del context
    return _said((name, its.prompt) for name, its in sorted(load_settings().hooks.items()))


def providers(context: Any) -> Offer:
    """Offer the providers."""
    from ..providers.catalog.known import KNOWN

    del context
    return _said((name, "") for name in sorted({*KNOWN, *load_settings().providers}))


def mcp_servers(context: Any) -> Offer:
    """Offer the servers of the Model Context Protocol."""
    del context
    return _said((name, "") for name in sorted(load_settings().mcp))


def models(context: Any) -> Offer:
    """Offer the models of the lists that providers gave before, and those that callboard knows."""
    from ..providers.catalog.cache import ModelCache
    from ..providers.catalog.catalog import ModelSelection, find_provider
    from ..providers.catalog.services import known_models

    selection = ModelSelection(settings=load_settings(), environ=os.environ)
    cache = ModelCache(_data(context))
    offered = {"rehearsal": ""}
    for name, _ in providers(context):
        provider = find_provider(selection, name)
        listed = cache.load(provider)
        for model in listed.models if listed is not None else known_models(provider):
            offered[f"{name}/{model.model}"] = model.title or ""
    return _said(offered.items())


def tools(context: Any) -> Offer:
    """Offer the built-in tools, and those of servers."""
    from ..tools.builtin import builtin_tools

    del context
    servers = load_settings().mcp.values()
    accepted = (tool.name for server in servers if server.enabled for tool in server.tools)
    return _said((name, "") for name in (*(tool.name for tool in builtin_tools()), *accepted))


async def _read(context: Any, read: Callable[[StoreReader], Any]) -> Offer:
    reader = await open_reader(_data(context))
    try:
        found: Offer = await read(reader)
        return found
    finally:
        await reader.aclose()


def _data(context: Any) -> Path:
    given = context.get("data")
    path = None if given is None else given.raw
    return named_data_path(Path(path) if path else None)


def _said(offer: Offer) -> Offer:
    return [(value, shortened(safe_line(text), MAX_SAID_CHARS)) for value, text in offer]
