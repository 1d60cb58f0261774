"""A daemon for a browser: `python -m support.gateway.console_peer` prints a link to its console and a token, and ends with SIGINT.

What its model does follows from the last thing that a person said; with the word `configured`, it has a configuration that may be
changed instead, and at first the rehearsal model; with `brief`, questions about calls wait for four seconds. A line `link` on stdin has it print another link, `away`
breaks all connections and refuses others, as a daemon does that stops, until `back`.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

import callboard
from callboard.config.keys.tokens import local_credential
from callboard.config.settings import Settings
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, fail, last_result, reply, stall
from callboard.runtime.definitions import Capability, Tier, ToolResult
from callboard.runtime.event_types.people import FormField, QuestionForm
from callboard.runtime.history import Input
from callboard.tools.tool import FunctionTool, ToolContext
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.kept_daemon import open_kept

MARKDOWN = """\
## What I found

The workspace has **three** modules. `main.py` begins here:

```python
def main(names: list[str]) -> int:
    # greets everybody
    for name in names:
        print(f"Hello, {name}!")
    return len(names)
```

| module | lines | tested |
|---|---:|---|
| `main.py` | 42 | yes |
| `store.py` | 310 | yes |
| `words.py` | 77 | no |

1. Read the configuration.
2. Open the store.
   - with a lock
   - and a deadline

> It is simpler than it looks. See [the handbook](https://example.org/handbook).
"""

# ruff: disable[ambiguous-unicode-character-string]
CHINESE = (
    "好的。我先查看工作区里的文件，然后运行测试。结果如下：**全部通过**，一共 128 项，用时 3.4 秒。"
)
# ruff: enable[ambiguous-unicode-character-string]

HOSTILE = """\
<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2"> [click](javascript:window.pwned=3)
![a](https://example.org/track.png) \u202etxt.exe\u202c \x1b[31mred\x1b[0m <style>*{display:none}</style>
"""


BOMB = "\n\n".join(
    (
        ">" * 3000 + " deep",
        "- " * 800 + "list",
        "[" * 5000,
        "*a **a " * 2000,
        "x" * 1_000_000,
        "The end.",
    )
)
"""What readers of Markdown take long for, or fail at, and a line of a megabyte."""

FIELDS = (
    FormField(name="name", title="Your name", required=True, least=2, most=40),
    FormField(name="mail", title="E-mail", form="email", description="For the confirmation."),
    FormField(name="people", kind="integer", title="How many", least=1, most=12, default=2),
    FormField(name="place", kind="choice", options=("in", "out"), labels=("Inside", "Outside")),
    FormField(name="food", kind="choices", title="Allergies", options=("nuts", "milk", "fish")),
    FormField(name="quiet", kind="yes_no", title="A quiet table"),
)


async def _book_table(context: ToolContext) -> ToolResult:
    """Books a table, as a person fills in."""
    assert context.channel is not None
    form = QuestionForm(fields=FIELDS, asked_by="tables")
    answer = await context.channel.ask(
        "The server tables asks: Which table?", ("decline",), form=form
    )
    return ToolResult(output={"said": answer.text})


book_table = FunctionTool(
    _book_table,
    name="book_table",
    tier=Tier.READ_ONLY,
    needs=[Capability.CHANNEL],
    timeout_seconds=600,
    waits=True,
)


async def _run_line(context: ToolContext, command: str) -> ToolResult:
    """Takes a line of a shell, and runs nothing."""
    return ToolResult(output={"command": command})


run_line = FunctionTool(
    _run_line, name="run_line", tier=Tier.SYSTEM, preview=lambda call, _: f"(in .)\n{call.command}"
)


class Bed(msgspec.Struct):
    """Where something is sown."""

    row: int
    shade: bool = False


async def _sow(
    context: ToolContext, months: list[Literal["march", "april", "may"]], seeds: list[str], bed: Bed
) -> ToolResult:
    """Takes what is to be sown, when and where, and sows nothing."""
    return ToolResult(output=[months, seeds, bed.row, bed.shade])


sow = FunctionTool(_sow, name="sow", tier=Tier.SYSTEM)

POEM = "\n".join(f"Line {number} of the poem." for number in range(1, 31))


CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "ask": [("ask_user", {"question": "Tea or coffee?", "options": ["Tea", "Coffee"]})],
    "form": [("book_table", {})],
    "write": [("write_file", {"path": "notes.md", "content": "# Notes\n\nBuy milk.\nCall Ada.\n"})],
    "draft": [("write_file", {"path": "poem.md", "content": POEM})],
    "rewrite": [
        (
            "write_file",
            {
                "path": "poem.md",
                "content": POEM.replace("Line 3 ", "The third line ").replace(
                    "Line 20 ", "The twentieth line "
                ),
            },
        )
    ],
    "command": [("run_line", {"command": "rm -rf 'my notes' && echo done"})],
    "sow": [("sow", {"months": ["march"], "seeds": ["peas"], "bed": {"row": 1}})],
    "both": [
        ("get_current_time", {"timezone": "Asia/Tokyo"}),
        ("list_files", {}),
        ("read_file", {"path": "gone.md"}),
    ],
}
"""What the model calls, by the first word."""

failed: set[str] = set()
"""What was refused once."""


def step(request: ModelRequest) -> Step:
    """What the model does with what was said last."""
    said = [item for each in request.rounds for item in each.items]
    if result := last_result(request) if not isinstance(said[-1], Input) else "":
        return reply(f"Done. It says: {result[:80]}")
    last = next(item for item in reversed(said) if isinstance(item, Input))
    text = last.text
    if last.attachments:
        names = ", ".join(f"{each.name} {each.media_type}" for each in last.attachments)
        return reply(f"You said: {text}\n\nIt came with: {names}")
    match text.split()[0]:
        case "markdown":
            return reply(MARKDOWN, thinking="What is there? I look at the modules first.")
        case "中文":
            return reply(CHINESE)
        case "hostile":
            return reply(
                HOSTILE, calls=[("write_file", {"path": HOSTILE[:60], "content": HOSTILE})]
            )
        case "bomb":
            return reply(BOMB)
        case "fail":
            is_again = text in failed
            failed.add(text)
            return reply(f"You said: {text}") if is_again else fail("The model is ill.")
        case "slow":
            return stall("I begin, and never end.")
        case "count":
            return reply([f"{number} " for number in range(1, 400)], piece_seconds=0.01)
        case word if word in CALLS:
            return reply("I write it down." if word == "write" else "", calls=CALLS[word])
        case _:
            return reply(f"You said: {text}")


def _kept(folder: str, port: str, token: str = "") -> AbstractAsyncContextManager[Daemon]:
    """A daemon whose record is on disk, to be killed and begun again at the same address."""
    strict = Settings(policy=callboard.Preset.STRICT)
    return open_kept(
        Path(folder),
        callboard.ScriptedModel([step] * 5000),
        port=int(port),
        token=token,
        settings=strict,
        tools=[book_table, run_line, sow],
    )


def _scripted(limits: callboard.Limits | None = None) -> AbstractAsyncContextManager[Daemon]:
    strict = Settings(policy=callboard.Preset.STRICT, limits=limits or callboard.Limits())
    return open_daemon(
        callboard.ScriptedModel([step] * 5000), configured=strict, tools=[book_table, run_line, sow]
    )


@asynccontextmanager
async def _configured() -> AsyncGenerator[Daemon]:
    with tempfile.TemporaryDirectory() as home:
        async with served(Path(home)) as (daemon, _):
            yield daemon


def _wanted(words: list[str]) -> AbstractAsyncContextManager[Daemon]:
    """The daemon that the command line asks for."""
    match words:
        case ["kept", *rest]:
            return _kept(*rest)
        case ["configured"]:
            return _configured()
        case ["brief"]:
            return _scripted(callboard.Limits(approval_seconds=4))
        case _:
            return _scripted()


async def serve(words: list[str]) -> None:
    """Serve until it is ended."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            _wanted(words) as daemon,
            trio.open_nursery() as nursery,
        ):
            state = daemon.gateway.daemon
            state.local, _ = local_credential()

            def link() -> None:
                address = state.console.link(daemon.url)
                sys.stdout.write(f"{address} {daemon.token}\n")
                sys.stdout.flush()

            async def listen() -> None:
                async with trio.lowlevel.FdStream(0) as lines:
                    async for line in lines:
                        state.is_stopping = b"away" in line
                        if state.is_stopping:
                            for each in list(state.connections):
                                each.close(1001, "the server stops", at_once=True)
                        elif b"link" in line:
                            link()

            async def announce() -> None:
                await daemon.gateway.stopped.wait()
                daemon.gateway.announce_end()

            link()
            nursery.start_soon(listen)
            nursery.start_soon(announce)
            async for _ in signals:
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1:])
