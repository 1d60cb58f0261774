"""After a reload nothing of the earlier configuration is left anywhere in a daemon, but what waits for a restart."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio.testing

import callboard
from callboard.client.client import connect
from callboard.config.files import load_settings
from callboard.config.keys.tokens import Credentials
from callboard.config.setting_rows import all_settings, needs_restart
from callboard.config.settings import Settings
from callboard.embedding.configuration import Configuration
from callboard.gateway.gateway import open_gateway
from callboard.runtime.wire.daemon import Reloaded
from callboard.runtime.wire.fields import Nothing, Role

NUDGE = 1.0 / 1024
"""Taken from each number of seconds or days before and after: a float that nothing else has."""


def text(nudges: int, word: str) -> str:
    """A configuration in which every setting that needs no restart differs from that of another word."""
    tables: dict[str, list[str]] = {}
    defaults = Settings()
    for name in all_settings():
        table, _, field = name.rpartition(".")
        if needs_restart(name) or not table:
            continue
        default = getattr(getattr(defaults, table), field)
        if isinstance(default, bool) or not isinstance(default, int | float):
            continue
        if isinstance(default, float):
            changed: float = default + nudges * (NUDGE if default < 1 else -NUDGE)
        else:
            changed = default - nudges if default > 2 else default + nudges
        tables.setdefault(table, []).append(f"{field} = {changed}")
    lines = {
        "network": f'allow = ["{word}.example:8080"]\nauto = ["{word}.example"]',
        "search": f'engine = "brave"\nbase_url = "https://{word}.example"',
        "git": f'name = "{word}"\nemail = "{word}@example.org"',
        "tests": f'command = ["{word}-test"]',
        "workspaces": f'trust = ["/srv/{word}"]\nuntrusted = ["/mnt/{word}"]',
        "mcp_server": f'enabled = {str(nudges > 1).lower()}\nagents = ["{word}"]\ntools = ["{word}"]\nagent = "{word}"\nworkspace = "/srv/{word}"',
        "openai": f'items = "{("all", "plain")[nudges > 1]}"\n'
        f'tool_progress = "{("reasoning", "off")[nudges > 1]}"',
        "notify": f'webhook = "https://{word}.example/x"',
        "server": f'roots = ["/srv/{word}"]\nallowed_hosts = ["{word}.example"]\n'
        f'allowed_origins = ["https://{word}.example"]\nconsole = {str(nudges > 1).lower()}',
    }
    for table, written in lines.items():
        tables.setdefault(table, []).append(written)
    whole = ['inactive = ["groq"]']
    whole += [f"[{table}]\n" + "\n".join(written) for table, written in tables.items()]
    whole += [
        f'[agents.reader]\nprompt = "The {word} prompt."\nturn_budget.seconds = {900 + nudges * NUDGE}',
        f'[hooks.ci]\nprompt = "The {word} hook."',
        f'[webhooks.board]\nurl = "https://{word}.example/y"',
        f'[schedules.morning]\nprompt = "The {word} task."\nevery = "{1 + nudges}h"',
        f'[prices."house/m"]\ninput = {1 + nudges * NUDGE}\noutput = 2.0',
        f'[mcp.clock]\ncommand = ["{word}-clock"]',
        f'[providers.house]\nbase_url = "https://{word}.example/v1"',
        f'[[rules]]\ntool = "read_file"\nverdict = "deny"\nreason = "The {word} reason."',
    ]
    return "\n".join(whole)


WORD = "formerly"


def is_left(value: Any, floats: frozenset[float]) -> bool:
    """Whether a value is one that only the earlier configuration has."""
    if isinstance(value, str):
        return WORD in value
    return isinstance(value, float) and value in floats


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value holds, with the name by which it does."""
    if isinstance(value, Mapping):
        for key, item in list(value.items()):
            yield f"[{key!r}]", key
            yield f"[{key!r}]", item
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"[{number}]", item) for number, item in enumerate(list(value)))
    elif isinstance(value, partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
        yield from ((f"<{name}>", _cell(cell)) for name, cell in cells)
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name, None)) for name in value.__struct_fields__)
    else:
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield f".{name}", getattr(value, name, None)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def found_in(roots: Mapping[str, Any], leftover: Callable[[Any], bool]) -> list[str]:
    """The places below some objects at which a value is left over."""
    seen: set[int] = set()
    kept: list[Any] = []  # so that no id is used twice
    places: list[str] = []
    waiting = deque(roots.items())
    while waiting:
        place, value = waiting.popleft()
        if leftover(value):
            places.append(place)
        if isinstance(value, str | bytes | int | float | type | types.ModuleType | None):
            continue
        module = type(value).__module__ or ""
        if id(value) in seen or module.startswith(
            ("trio", "logging", "ssl", "sqlite3", "sqlalchemy")
        ):
            continue
        seen.add(id(value))
        kept.append(value)
        waiting.extend((place + name, item) for name, item in parts(value))
    assert len(seen) > 500, "the walk has seen next to nothing"
    return places


async def test_nothing_of_the_earlier_configuration_is_left(tmp_path: Path) -> None:
    file = tmp_path / "callboard.toml"
    file.write_text(text(1, WORD))
    before = load_settings(file)
    token = Credentials(tmp_path / "data").create("test", Role.ADMIN).reveal()
    (tmp_path / "work").mkdir()
    async with (
        callboard.open_runtime(
            model=callboard.ScriptedModel([callboard.reply("Hi."), callboard.reply("Hi.")]),
            workspace=tmp_path / "work",
            settings=before,
            environ={"HOME": str(tmp_path)},
            on_approval="deny",
        ) as runtime,
        open_gateway(
            runtime,
            before.server,
            tmp_path / "data",
            listeners=await trio.open_tcp_listeners(0, host="127.0.0.1"),
        ) as gateway,
    ):
        daemon = gateway.daemon
        daemon.configuration = Configuration(lambda: load_settings(file), (file,))
        async with connect(f"ws://127.0.0.1:{gateway.port}/ws", token) as client:
            session = await client.create_session(agent="reader")
            await client.ask(session.session_id, "Hello.")  # whoever reads settings has read them
            roots = {"runtime": runtime, "daemon": daemon}
            floats = floats_of(before)
            assert found_in(roots, lambda value: is_left(value, floats))  # the control
            file.write_text(text(2, "later"))
            told = await client.request("config/reload", Nothing(), Reloaded)
            assert told.state.waiting == ()
            hot = {name for name in all_settings() if not needs_restart(name)}
            assert hot - set(told.changed) <= UNCHANGED
        await trio.testing.wait_all_tasks_blocked()
        left = found_in(roots, lambda value: is_left(value, floats))
        assert [place for place in left if not any(each in place for each in ALLOWED)] == []


UNCHANGED = {
    "model",
    "policy",
    "inactive",
    "server.log_level",
    "server.public_url",
    "search.engine",
}
"""Words that are no marks by themselves; `test_reload` changes each."""

ALLOWED = (".requests",)
"""Places that may have something of an earlier configuration."""


def floats_of(settings: Settings) -> frozenset[float]:
    """The numbers of a configuration that nothing else has."""
    found: set[float] = set()

    def collect(value: Any) -> None:
        if isinstance(value, float):
            if value % 1 in {NUDGE, 1 - NUDGE}:
                found.add(value)
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                collect(getattr(value, name))
        elif isinstance(value, Mapping):
            for each in value.values():
                collect(each)

    collect(settings)
    return frozenset(found)
