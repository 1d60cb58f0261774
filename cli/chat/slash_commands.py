"""The commands of a chat, behind a slash: each is a function of the talk and the rest of the line."""

from __future__ import annotations

import base64
import difflib
import os
import re
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from ...client.client import Client
from ...providers.catalog.known import KNOWN_MODELS
from ...runtime.changes.undo_report import UndoReport
from ...runtime.definitions import Preset
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.event_types.plan import plan_lines
from ...runtime.store.rows import SessionRow
from ..record_names import MAX_LOOKED_AT, MAX_MATCHES, begins, nothing_here, only, waiting_words
from ..show.ended_calls import output_lines
from ..show.undone_files import undone_lines
from ..show.usage import usage_line
from ..terminal.escaping import safe_line, safe_text, short_path, shortened
from ..terminal.style import counted, minute
from .questions import listed_questions
from .shell_line import run_shell_line
from .status_line import context_text
from .talk import Talk
from .view import ChatView

MAX_LISTED = 20
"""Sessions in one list: a screen."""
MAX_VALUES = 10
"""Values that are shown of what an argument may be."""
MAX_TITLE_CHARS = 60
MAX_COPIED_CHARS = 50_000
"""Terminals take some 100,000 bytes for the clipboard, encoded."""

_CODE = re.compile(r"^ *```[^\n`]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


class SlashCommand(msgspec.Struct, frozen=True):
    """A command; `usage` is how it is typed, `summary` what it does."""

    usage: str
    summary: str
    run: Callable[[Talk, str], Awaitable[None] | None]


async def run_command(chat: Talk, line: str) -> None:
    """Run a slash command, or, behind an exclamation mark, one of the person's shell.

    Raises:
        CallboardError: It can't be done, or there is no such command.
    """
    if line.startswith("!"):
        await _shell(chat, line[1:].strip())
        return
    if ":" in line.partition(" ")[0]:
        from ..mcp.prompts import prompt_line  # here: few servers have prompts

        if (found := prompt_line(line)) is not None:
            await _server_prompt(chat, *found)
            return
    name, _, argument = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        close = [known for known in COMMANDS if known.startswith(name)] if name else []
        if len(close) != 1:
            close = close or close_to(name, COMMANDS)
            like = ""
            if len(close) == 1:
                chat.offer(f"/{close[0]} {argument}".strip())
                like = f" Enter runs /{close[0]}, which is like it."
            elif close:
                like = f" Like it are {', '.join(f'/{each}' for each in close)}."
            raise ValidationError(
                f"there is no command /{name}; /help lists them.{like} A text that begins with a slash "
                "is sent with two"
            )
        command = COMMANDS[close[0]]
    if (under_way := command.run(chat, argument.strip())) is not None:
        await under_way


def close_to(name: str, known: Iterable[str]) -> list[str]:
    """Return the known name that is most like this one, if one is."""
    return difflib.get_close_matches(name, known, 1)


async def find_session(client: Client, name: str, folder: str) -> SessionRow:
    """Return the session of this id, or whose id begins so, or whose title has this.

    `last` is the latest of a folder.

    Raises:
        NotFoundError: There is none.
        ValidationError: There are several.
    """
    if name == "last":
        page = await client.find_sessions(workspace=folder, include_children=False, limit=1)
        if page.sessions:
            return page.sessions[0]
        latest = await client.find_sessions(include_children=False, limit=1)
        raise nothing_here(folder, latest.sessions)
    rows = await client.sessions(limit=MAX_LOOKED_AT)
    found = {row.session_id: row for row in rows if begins(row.session_id, "session", name)}
    if name in found:
        return found[name]
    if not found:
        wanted = name.casefold()
        titled = [row for row in rows if wanted in row.title.casefold()]
        if len(titled) > 1:
            raise _in_titles(name, titled)
        found = {row.session_id: row for row in titled}
    if found:
        return only(found, name, "sessions", field="session")
    if name.startswith("session_"):
        return await client.session(name)
    raise NotFoundError(
        f"there is no session {name!r}; /sessions, or `callboard sessions`, lists them"
    )


def _in_titles(name: str, rows: list[SessionRow]) -> ValidationError:
    said = [
        f"{row.session_id} ({shortened(safe_line(row.title), MAX_TITLE_CHARS)})"
        for row in rows[:MAX_MATCHES]
    ]
    more = f" and {len(rows) - MAX_MATCHES} more" if len(rows) > MAX_MATCHES else ""
    return ValidationError(
        f"{name!r} stands in the titles of {len(rows)} sessions: {', '.join(said)}{more}. Write more of one, or "
        "its id.",
        field="session",
    )


def _require(chat: Talk, method: str) -> None:
    if method not in chat.client.welcome.methods:
        raise NotFoundError(
            f"this daemon has no {method} for you: it is older, or the token's role is"
        )


def _session_of(chat: Talk) -> ChatView:
    if chat.view is None:
        raise NotFoundError("there is no session yet: the first prompt begins one")
    return chat.view


async def _shell(chat: Talk, command: str) -> None:
    if not command:
        raise ValidationError("say which command: !COMMAND runs it in your own shell")
    chat.say("  (runs as you, outside the sandbox)")
    output = await run_shell_line(command, chat.folder, chat.print)
    ended = "" if output.code == 0 else f"  (it ended with {output.code})"
    if ended:
        chat.say(ended)
    if output.text.strip() and await chat.confirm(
        "Give the output to the model with your next prompt? [y/N] "
    ):
        chat.shell_output = output
        chat.say("  it goes with your next prompt, as text that others may have written")


async def _server_prompt(chat: Talk, name: str, words: str) -> None:
    """Have a server make a text of a prompt, which the person sends."""
    from ..mcp.prompts import METHOD, find_prompts, typed_prompt

    _require(chat, METHOD)
    typed = typed_prompt(await find_prompts(chat.client), name, words)
    row, given = typed.row, typed.given
    if row.problem:
        raise ConflictError(f"/{safe_line(name)} is withheld: {row.problem}")
    for argument in typed.missing:
        values = await chat.client.mcp.complete(row.server, row.name, argument.name, "", given)
        known = f" ({', '.join(map(safe_line, values[:MAX_VALUES]))})" if values else ""
        said = f": {safe_line(argument.description)}" if argument.description else ""
        given[argument.name] = await chat.ask_line(f"{safe_line(argument.name)}{said}{known}: ")
    found = await chat.client.mcp.prompt(row.server, row.name, given)
    for note in found.notes:
        chat.notice(note)
    await chat.offer_foreign(found.text, is_untrusted=found.is_untrusted)


def _help(chat: Talk, argument: str) -> None:
    width = max(len(each.usage) for each in COMMANDS.values())
    for title, names in GROUPS.items():
        rows = [
            f"  {COMMANDS[name].usage.ljust(width)}  {COMMANDS[name].summary}" for name in names
        ]
        chat.say("\n".join([title, *rows]))
    if chat.prompts:
        rows = [f"  {safe_line(name).ljust(width)}  {its}" for name, its in chat.prompts.items()]
        chat.say("\n".join(["Prompts of servers", *sorted(rows)]))
    keys = (
        ("Enter", "sends; while a turn runs, the input has its turn afterwards"),
        ("Alt-Enter, Ctrl-J", "begin a new line, and so do \\ and Enter"),
        ("Ctrl-X Ctrl-E", "edits the input in $EDITOR"),
        ("up, Ctrl-R", "find earlier inputs"),
        ("Tab, down", "choose from the menu of commands, or of files behind @; Esc closes it"),
        (
            "Esc Esc",
            "takes back the last prompt that waits; else edits an earlier one, and goes on from there in a copy",
        ),
        ("Ctrl-V", "attaches the image on the clipboard to the next prompt"),
        (
            "Ctrl-O",
            "shows the output of the call that ended last; once more, of the one before",
        ),
        ("Shift-Tab", "takes the next policy"),
        (
            "Ctrl-C",
            "cancels the turn and takes back what waits, and leaves when there is none; Ctrl-D leaves",
        ),
        (
            "@FILE",
            "attaches a file of the folder; a picture that is dropped on the terminal is attached",
        ),
        ("!COMMAND", "runs in your own shell; the model sees nothing of it, unless you say so"),
    )
    chat.say(
        "\n".join(["Keys and signs", *(f"  {key.ljust(width)}  {said}" for key, said in keys)])
    )


async def _sessions(chat: Talk, argument: str) -> None:
    words = argument.split()
    everywhere = words[:1] == ["--all"]
    page = await chat.client.find_sessions(
        " ".join(words[everywhere:]),
        workspace=None if everywhere else chat.folder,
        include_children=False,
        limit=MAX_LISTED,
    )
    own = chat.view.session_id if chat.view is not None else ""
    lines = [_session_line(row, is_own=row.session_id == own) for row in page.sessions]
    if page.next_before is not None:
        lines.append("  and more; /sessions WORD narrows it")
    where = (
        "" if everywhere else f" in {short_path(chat.folder)}; /sessions --all lists all folders"
    )
    chat.say("\n".join(lines) or f"  there is no session{' like that' if argument else ''}{where}")


def _session_line(row: SessionRow, *, is_own: bool) -> str:
    title = shortened(safe_line(row.title) or "(no title)", MAX_TITLE_CHARS)
    mark = "*" if is_own else " "
    count = counted(row.message_count, "message")
    running = (
        f", {waits}" if (waits := waiting_words(row)) else ", running" if row.is_active else ""
    )
    when, folder = minute(row.updated_at_ms), short_path(row.workspace)
    return f"{mark} {row.session_id}  {when}  {folder}  {title} ({count}{running})"


async def _new(chat: Talk, argument: str) -> None:
    if argument and argument not in {agent.name for agent in await chat.client.agents.list()}:
        raise NotFoundError(f"there is no agent {argument!r}; /agents lists them")
    chat.begin(agent=argument or None)
    chat.say("  a new session begins with your next prompt")


async def _switch(chat: Talk, argument: str) -> None:
    if not argument:
        raise ValidationError("say which session: /switch ID, the beginning of one, or a title")
    await chat.show(await find_session(chat.client, argument, chat.folder))


async def _search(chat: Talk, argument: str) -> None:
    _require(chat, "session/search")
    if not argument:
        raise ValidationError("say which words: /search WORDS")
    lines = [
        f"{_session_line(hit.session, is_own=False)}\n      {safe_line(hit.snippet)}"
        for hit in await chat.client.search(argument)
    ]
    chat.say("\n".join(lines) or "  nobody said that")


async def _rename(chat: Talk, argument: str) -> None:
    view = _session_of(chat)
    _require(chat, "session/rename")
    if not argument:
        raise ValidationError("say the new title: /rename TITLE")
    await chat.client.rename(view.session_id, argument)
    chat.say("  renamed")


async def _agent(chat: Talk, argument: str) -> None:
    view = _session_of(chat)
    _require(chat, "session/set_agent")
    if not argument:
        raise ValidationError("say which agent: /agent NAME; /agents lists them")
    await chat.client.set_agent([view.session_id], argument)
    chat.say(f"  from the next turn on the session has the agent {safe_line(argument)}")


async def _approvals(chat: Talk, argument: str) -> None:
    """List the questions that wait in all sessions; with an id, ask that one."""
    session_id = chat.view.session_id if chat.view is not None else ""
    waiting = await listed_questions(chat.client, session_id)
    if not argument:
        lines = [
            f"  {question_id}  {safe_line(asked.tool)}  {shortened(safe_line(about), 60)}"
            for question_id, (asked, about) in waiting.items()
        ]
        chat.say("\n".join(lines) or "  nothing waits for an answer")
        return
    found = {
        question_id: asked
        for question_id, (asked, _) in waiting.items()
        if begins(question_id, question_id.partition("_")[0], argument)
    }
    if not found:
        raise NotFoundError(f"no question {argument!r} waits; /approvals lists them")
    await chat.put(only(found, argument, "questions"))


async def _agents(chat: Talk, argument: str) -> None:
    _require(chat, "agent/list")
    agents = await chat.client.agents.list()
    chat.say(
        "\n".join(f"  {safe_line(each.name)}  {safe_line(each.model or '')}" for each in agents)
    )


async def _model(chat: Talk, argument: str) -> None:
    if not argument:
        model = safe_line((await chat.find_facts()).model)
        chat.say(f"  {model}; /model PROVIDER/MODEL takes another from the next prompt on")
        return
    await _check_model(chat, argument)
    if chat.view is None:
        chat.change(model=argument)
    chat.change_turns(model=argument if chat.view is not None else None)
    chat.say(f"  from your next prompt on {safe_line(argument)} answers")


async def _check_model(chat: Talk, name: str) -> None:
    """Raise `NotFoundError` unless there is a provider of that name; say which model may be meant."""
    if "provider/list" not in chat.client.welcome.methods:
        return
    providers = [row.name for row in await chat.client.providers.list()]
    provider = name.partition("/")[0]
    if provider in providers:
        return
    known = [f"{each}/{row.model}" for each, rows in KNOWN_MODELS.items() for row in rows]
    like = [each for each in known if each.partition("/")[2] == name] or close_to(
        name, [*known, *providers]
    )
    hint = f"; did you mean {like[0]}?" if like else f"; there are {', '.join(providers)}"
    raise NotFoundError(f"there is no provider {provider!r}: write PROVIDER/MODEL{hint}")


async def _policy(chat: Talk, argument: str) -> None:
    presets = [str(each) for each in Preset]
    if not argument:
        policy = (await chat.find_facts()).policy
        said = f"  {policy or 'as the agent has it'}; /policy {'|'.join(presets)}, or Shift-Tab"
    elif argument not in presets:
        raise ValidationError(f"there is no policy {argument!r}; there are {', '.join(presets)}")
    else:
        chat.change_turns(policy=Preset(argument))
        said = f"  from your next prompt on the policy is {argument}"
    chat.say(said)


async def _tools(chat: Talk, argument: str) -> None:
    names = [tool.name for tool in (await chat.client.tools()).tools]
    chat.say("  " + ", ".join(map(safe_line, names)))


async def _cancel(chat: Talk, argument: str) -> None:
    _session_of(chat)
    await chat.cancel()


async def _steer(chat: Talk, argument: str) -> None:
    if not argument:
        raise ValidationError("say what to tell the model: /steer TEXT")
    if _session_of(chat).is_idle:
        raise ConflictError("no turn is running: send it without /steer")
    await chat.send(argument, "steer")


async def _interrupt(chat: Talk, argument: str) -> None:
    if not argument:
        raise ValidationError("say what comes instead: /now TEXT")
    await chat.send(argument, "interrupt")


async def _retry(chat: Talk, argument: str) -> None:
    view = _session_of(chat)
    if view.is_idle and view.outcome == "answered":
        raise ConflictError(
            "there is nothing to retry, the last turn was answered: /regenerate has it answered again"
        )
    _require(chat, "session/retry")
    await chat.again("retry")


async def _regenerate(chat: Talk, argument: str) -> None:
    _session_of(chat)
    _require(chat, "session/regenerate")
    await chat.again("regenerate")


async def _compact(chat: Talk, argument: str) -> None:
    _session_of(chat)
    await chat.send(f"/compact {argument}".strip(), is_typed=False, compact=True)


async def _undo(chat: Talk, argument: str) -> None:
    view = _session_of(chat)
    _require(chat, "session/undo")
    call_id = argument or None
    foreseen, nothing = None, None
    try:
        foreseen = await chat.client.undo(view.session_id, call_id=call_id, dry_run=True)
    except NotFoundError as error:
        nothing = error
    if foreseen is None:
        origin = (await chat.client.session(view.session_id)).forked_from
        where = f" It is a copy: earlier changes are taken back in {origin}, by /switch and /undo"
        raise NotFoundError(f"{nothing}{where if origin else ''}")
    inside = [f"  {line}" for line in undone_lines(foreseen.files, chat.style)]
    chat.say("\n".join([*_undo_lines(foreseen), *inside]) or "  no file changes")
    if not foreseen.lines:
        return
    if foreseen.left:
        chat.say("  nothing is undone: what is left was changed since; `callboard undo --force`")
        return
    if await chat.confirm("Undo this? [y/N] "):
        done = await chat.client.undo(view.session_id, call_id=call_id)
        chat.say(
            f"  undone: {counted(len(done.lines), 'path')}; /undo {done.undo_id} takes it back"
        )


def _undo_lines(report: UndoReport) -> list[str]:
    return [
        *(f"  {safe_line(line)}" for line in report.lines),
        *(f"  left as it is: {safe_line(line)}" for line in report.left),
        *(f"  can't be undone, a program did it: {safe_line(line)}" for line in report.programs),
        *(
            f"  still runs, and may write to these files: {safe_line(line)}"
            for line in report.running
        ),
    ]


async def _fork(chat: Talk, argument: str) -> None:
    _session_of(chat)
    _require(chat, "session/fork")
    await chat.fork()


async def _usage(chat: Talk, argument: str) -> None:
    view = _session_of(chat)
    _require(chat, "usage/get")
    report = await chat.client.usage(by="model", session_id=view.session_id)
    if not report.sums:
        chat.say("  no model was called yet")
        return
    sums = report.sums if len(report.sums) == 1 else (*report.sums, report.total)
    chat.say("\n".join(f"  {usage_line(each).rstrip()}" for each in sums))


async def _copy(chat: Talk, argument: str) -> None:
    text = _session_of(chat).answer
    if argument not in {"", "code"}:
        raise ValidationError("/copy copies the last answer, /copy code its last block of code")
    if argument:
        blocks = _CODE.findall(text)
        text = blocks[-1] if blocks else ""
    if not text:
        lacks = (
            "the last answer has no block of code" if argument else "there is nothing to copy yet"
        )
        raise NotFoundError(lacks)
    from ..terminal.clipboard import put_text  # here: few chats copy

    if await put_text(text, os.environ):
        chat.say(f"  {counted(len(text), 'character')} on the clipboard")
        return
    if len(text) > MAX_COPIED_CHARS:
        raise ValidationError(
            f"that is longer than {MAX_COPIED_CHARS} characters, which few terminals take"
        )
    code = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if not await chat.write_raw(f"\x1b]52;c;{code}\x07"):
        raise ValidationError("there is no terminal, and no program that has a clipboard")
    chat.say(
        f"  {counted(len(text), 'character')} for the clipboard, if the terminal lets programs have it"
    )


def _calls(chat: Talk, argument: str) -> None:
    """List the calls that ended last; with a number, print the output of one."""
    view = _session_of(chat)
    if not argument:
        lines = view.ended_calls.lines(chat.style)
        more = "  /calls N shows the output of one, Ctrl-O that of the last"
        chat.say("\n".join([*lines, more]) if lines else "  no call has ended yet")
        return
    number = int(argument) if argument.isascii() and argument.isdecimal() else 0
    if (call := view.ended_calls.get(number)) is None:
        raise NotFoundError(f"there is no call {argument!r} here; /calls lists them by numbers")
    chat.say("\n".join(output_lines(call, chat.style, view.session_id)))


def _plan(chat: Talk, argument: str) -> None:
    lines = plan_lines(_session_of(chat).plan)
    chat.say("\n".join(f"  {safe_line(line)}" for line in lines) or "  there is no plan")


def _thinking(chat: Talk, argument: str) -> None:
    text = _session_of(chat).thinking
    lines = safe_text(text).split("\n") if text else ["(the model showed no reasoning)"]
    chat.say("\n".join(f"  | {line}" for line in lines))


async def _status(chat: Talk, argument: str) -> None:
    welcome, facts = chat.client.welcome, await chat.find_facts()
    view = chat.view
    context = "" if view is None else context_text(view.context_tokens, facts.window)
    lines = [
        f"  daemon: {welcome.server.version}, you are {welcome.role}",
        f"  session: {view.session_id if view is not None else 'none yet'}",
        f"  folder: {short_path(chat.folder)}",
        f"  agent: {safe_line(facts.agent)}",
        f"  model: {safe_line(facts.model)}{f', {context}' if context else ''}",
        f"  policy: {facts.policy or 'unknown'}",
    ]
    if view is not None and view.waiting:
        lines.append(f"  waiting: {counted(len(view.waiting), 'input')}")
    chat.say("\n".join(lines))


def _quit(chat: Talk, argument: str) -> None:
    chat.leave()


COMMANDS: dict[str, SlashCommand] = {
    "steer": SlashCommand("/steer TEXT", "tell the running turn something", _steer),
    "now": SlashCommand("/now TEXT", "cancel the running turn, and do this", _interrupt),
    "cancel": SlashCommand("/cancel", "cancel the running turn", _cancel),
    "retry": SlashCommand("/retry", "run the last turn again if it was not answered", _retry),
    "regenerate": SlashCommand("/regenerate", "have the last turn answered again", _regenerate),
    "compact": SlashCommand(
        "/compact [TEXT]",
        "have a summary in place of what was said; TEXT is what matters",
        _compact,
    ),
    "copy": SlashCommand("/copy [code]", "copy the last answer, or its last code", _copy),
    "calls": SlashCommand(
        "/calls [N]", "list the calls that ended, or show the output of one", _calls
    ),
    "plan": SlashCommand("/plan", "show the model's plan", _plan),
    "thinking": SlashCommand("/thinking", "show the model's last reasoning", _thinking),
    "sessions": SlashCommand(
        "/sessions [--all] [WORD]", "list those of this folder, or of all", _sessions
    ),
    "new": SlashCommand("/new [AGENT]", "begin another", _new),
    "switch": SlashCommand("/switch SESSION", "go on with another, by its id or title", _switch),
    "fork": SlashCommand("/fork", "go on in a copy of this one", _fork),
    "search": SlashCommand("/search WORDS", "find sessions by what was said", _search),
    "rename": SlashCommand("/rename TITLE", "change the title", _rename),
    "model": SlashCommand("/model [NAME]", "show the model, or take another", _model),
    "policy": SlashCommand(
        "/policy [PRESET]", "show what runs without asking, or change it", _policy
    ),
    "agents": SlashCommand("/agents", "list the agents", _agents),
    "agent": SlashCommand("/agent NAME", "give the session another agent", _agent),
    "tools": SlashCommand("/tools", "list the tools that models can ask for", _tools),
    "approvals": SlashCommand(
        "/approvals [ID]", "list questions that wait, or answer one", _approvals
    ),
    "undo": SlashCommand(
        "/undo [CALL]", "show what calls changed, delegated ones too, and take it back", _undo
    ),
    "usage": SlashCommand("/usage", "show tokens and cost of this session", _usage),
    "cost": SlashCommand("/cost", "show the same as /usage", _usage),
    "status": SlashCommand("/status", "show daemon, model and session", _status),
    "help": SlashCommand("/help", "show this list", _help),
    "quit": SlashCommand("/quit", "leave; the session goes on in the daemon", _quit),
}
GROUPS = {
    "Turns": (
        *("steer", "now", "cancel", "retry", "regenerate", "compact", "copy", "calls", "plan"),
        "thinking",
    ),
    "Sessions": ("sessions", "new", "switch", "fork", "search", "rename"),
    "Models and permissions": ("model", "policy", "agents", "agent", "tools", "approvals"),
    "Files, figures, chat": ("undo", "usage", "cost", "status", "help", "quit"),
}
"""The commands as `/help` lists them."""
