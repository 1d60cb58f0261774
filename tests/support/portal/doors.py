"""The doors through which agents, schedules, hooks and settings are managed, with the same methods each: one table, many drivers."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
import trio

import callboard
from callboard.config.managed import fields_toml
from callboard.portals import aio
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import CallboardError
from callboard.runtime.hooks.hook import Hook
from callboard.runtime.schedules.schedule import Schedule
from callboard.runtime.store.rows import MessageRow
from callboard.runtime.wire.agents import AgentRow
from callboard.runtime.wire.hooks import HookRow, hook_of_row
from callboard.runtime.wire.schedules import ScheduleRow
from callboard.tools.skills.shelf import Skill
from support.cli.command import Command, Finished
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import open_client

RunHere = Callable[..., Awaitable[Finished]]


class Door(ABC):
    """A way to the agents. What is refused raises a `CallboardError` with the words that a person sees.

    Attributes:
        source: What its agents say where they come from.
        work: A folder in which sessions may work.
    """

    source = "managed"

    def __init__(self, work: Path) -> None:
        self.work = work

    @abstractmethod
    async def rows(self) -> dict[str, AgentRow]:
        """Return the agents by name."""

    @abstractmethod
    async def create(self, agent: Agent) -> None:
        """Make an agent."""

    @abstractmethod
    async def update(self, agent: Agent) -> None:
        """Change an agent as a whole."""

    @abstractmethod
    async def clone(self, name: str, new_name: str) -> None:
        """Copy an agent."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Delete an agent."""

    @abstractmethod
    async def schedules(self) -> dict[str, ScheduleRow]:
        """Return the schedules by name."""

    @abstractmethod
    async def plan(self, schedule: Schedule) -> None:
        """Make a schedule."""

    @abstractmethod
    async def replan(self, schedule: Schedule) -> None:
        """Change a schedule as a whole."""

    @abstractmethod
    async def pause(self, name: str, *, paused: bool) -> None:
        """Pause a schedule, or let it fire again."""

    @abstractmethod
    async def unplan(self, name: str) -> None:
        """Remove a schedule."""

    @abstractmethod
    async def hooks(self) -> dict[str, HookRow]:
        """Return the hooks by name."""

    @abstractmethod
    async def add_hook(self, hook: Hook) -> None:
        """Make a hook."""

    @abstractmethod
    async def change_hook(self, hook: Hook) -> None:
        """Change a hook as a whole."""

    async def pause_hook(self, name: str, *, paused: bool) -> None:
        """Pause a hook, or let it take deliveries again."""
        before = hook_of_row((await self.hooks())[name])
        await self.change_hook(msgspec.structs.replace(before, paused=paused))

    @abstractmethod
    async def remove_hook(self, name: str) -> None:
        """Remove a hook."""

    @abstractmethod
    async def setting(self, name: str) -> Any:
        """Return the value of a setting."""

    @abstractmethod
    async def set(self, name: str, value: Any) -> None:
        """Set a setting; `None` takes it back."""

    @abstractmethod
    async def talk(self, *prompts: str) -> str:
        """Have prompts answered in a new session; return its id."""

    @abstractmethod
    async def messages(self, session_id: str, **page: Any) -> list[MessageRow]:
        """Return what was said."""

    @abstractmethod
    async def fork(self, session_id: str, message_id: str) -> str:
        """Return the id of a session that goes on from a message."""

    @abstractmethod
    async def delete_messages(self, session_id: str, message_id: str) -> None:
        """Delete a message."""

    @abstractmethod
    async def skills(self) -> dict[str, Skill]:
        """Return what there is for the folder, by its path."""

    @abstractmethod
    async def text(self, path: str) -> str:
        """Return what a skill says."""

    @abstractmethod
    async def allow(self, skill: Skill) -> None:
        """Let models have it."""

    @abstractmethod
    async def revoke(self, path: str) -> None:
        """Take that back."""


class Methods(Door):
    """A door of methods that are awaited, of a `Runtime` or a `Client`."""

    def __init__(self, place: Any, work: Path) -> None:
        super().__init__(work)
        self._place = place

    async def rows(self) -> dict[str, AgentRow]:
        return {row.name: row for row in await self._do("list")}

    async def create(self, agent: Agent) -> None:
        await self._do("create", agent)

    async def update(self, agent: Agent) -> None:
        await self._do("update", agent)

    async def clone(self, name: str, new_name: str) -> None:
        await self._do("clone", name, new_name)

    async def delete(self, name: str) -> None:
        await self._do("delete", name)

    async def schedules(self) -> dict[str, ScheduleRow]:
        return {row.name: row for row in await self._do("list", of="schedules")}

    async def plan(self, schedule: Schedule) -> None:
        await self._do("create", schedule, of="schedules")

    async def replan(self, schedule: Schedule) -> None:
        await self._do("update", schedule, of="schedules")

    async def pause(self, name: str, *, paused: bool) -> None:
        await self._do("pause" if paused else "resume", name, of="schedules")

    async def unplan(self, name: str) -> None:
        await self._do("delete", name, of="schedules")

    async def hooks(self) -> dict[str, HookRow]:
        return {row.name: row for row in await self._do("list", of="hooks")}

    async def add_hook(self, hook: Hook) -> None:
        await self._do("create", hook, of="hooks")

    async def change_hook(self, hook: Hook) -> None:
        await self._do("update", hook, of="hooks")

    async def remove_hook(self, name: str) -> None:
        await self._do("delete", name, of="hooks")

    async def setting(self, name: str) -> Any:
        return (await self._do("get", name, of="settings")).value

    async def set(self, name: str, value: Any) -> None:
        await self._do("set", name, value, of="settings")

    async def skills(self) -> dict[str, Skill]:
        found = await self._do("list", of="skills", workspace=str(self.work))
        return {skill.path: skill for skill in found}

    async def text(self, path: str) -> str:
        found = await self._do("get", path, of="skills", workspace=str(self.work))
        return str(found.text)

    async def allow(self, skill: Skill) -> None:
        its = skill.path, skill.digest
        await self._do("allow", *its, of="skills", workspace=str(self.work))

    async def revoke(self, path: str) -> None:
        await self._do("revoke", path, of="skills", workspace=str(self.work))

    async def talk(self, *prompts: str) -> str:
        session = await self._call(self._place.create_session)
        for prompt in prompts:
            await self._call(session.run, prompt)
        return str(session.session_id)

    async def messages(self, session_id: str, **page: Any) -> list[MessageRow]:
        found: list[MessageRow] = await self._call(
            (await self._session(session_id)).messages, **page
        )
        return found

    async def fork(self, session_id: str, message_id: str) -> str:
        forked = await self._call((await self._session(session_id)).fork, message_id)
        return str(forked.session_id)

    async def delete_messages(self, session_id: str, message_id: str) -> None:
        await self._call((await self._session(session_id)).delete_messages, [message_id])

    async def _session(self, session_id: str) -> Any:
        return await self._call(self._place.get_session, session_id)

    async def _do(self, method: str, *arguments: Any, of: str = "agents", **named: Any) -> Any:
        return await self._call(getattr(getattr(self._place, of), method), *arguments, **named)

    async def _call(self, method: Any, *arguments: Any, **named: Any) -> Any:
        return await method(*arguments, **named)


class Remote(Methods):
    """A `Client`, which names sessions in each request."""

    async def talk(self, *prompts: str) -> str:
        row = await self._place.create_session(workspace=str(self.work), model="rehearsal")
        for prompt in prompts:
            await self._place.ask(row.session_id, prompt)
        return str(row.session_id)

    async def messages(self, session_id: str, **page: Any) -> list[MessageRow]:
        found: list[MessageRow] = await self._place.messages(session_id, **page)
        return found

    async def fork(self, session_id: str, message_id: str) -> str:
        return str((await self._place.fork(session_id, message_id)).session_id)

    async def delete_messages(self, session_id: str, message_id: str) -> None:
        await self._place.delete_messages(session_id, [message_id])


class Blocking(Methods):
    """A door of methods that block."""

    async def _call(self, method: Any, *arguments: Any, **named: Any) -> Any:
        return await trio.to_thread.run_sync(partial(method, *arguments, **named))


class Asyncio(Methods):
    """A door of methods that are awaited on an event loop in another thread."""

    def __init__(
        self, loop: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]], place: Any, work: Path
    ):
        super().__init__(place, work)
        self._loop = loop

    async def _call(self, method: Any, *arguments: Any, **named: Any) -> Any:
        return await self._loop(method(*arguments, **named))


class CommandLine(Door):
    """`callboard agents` and `callboard settings`; an agent goes in as a TOML file."""

    def __init__(self, command: Command, run: RunHere) -> None:
        super().__init__(command.workspace)
        self._command = command
        self._run = run

    async def rows(self) -> dict[str, AgentRow]:
        lines = await self._do("list", "--json")
        found = [msgspec.convert(json.loads(line), AgentRow) for line in lines.splitlines()]
        return {row.name: row for row in found}

    async def create(self, agent: Agent) -> None:
        await self._do("create", agent.name, "--file", self._written(agent))

    async def update(self, agent: Agent) -> None:
        await self._do("edit", agent.name, "--file", self._written(agent))

    async def clone(self, name: str, new_name: str) -> None:
        await self._do("clone", name, new_name)

    async def delete(self, name: str) -> None:
        await self._do("delete", name)

    async def schedules(self) -> dict[str, ScheduleRow]:
        lines = await self._do("list", "--json", of="schedule")
        found = [msgspec.convert(json.loads(line), ScheduleRow) for line in lines.splitlines()]
        return {row.name: row for row in found}

    async def plan(self, schedule: Schedule) -> None:
        await self._do("add", schedule.name, "--file", self._written(schedule), of="schedule")

    async def replan(self, schedule: Schedule) -> None:
        await self._do("edit", schedule.name, "--file", self._written(schedule), of="schedule")

    async def pause(self, name: str, *, paused: bool) -> None:
        await self._do("pause" if paused else "resume", name, of="schedule")

    async def unplan(self, name: str) -> None:
        await self._do("remove", name, of="schedule")

    async def hooks(self) -> dict[str, HookRow]:
        lines = await self._do("list", "--json", of="hooks")
        found = [msgspec.convert(json.loads(line), HookRow) for line in lines.splitlines()]
        return {row.name: row for row in found}

    async def add_hook(self, hook: Hook) -> None:
        await self._do("add", hook.name, "--file", self._written(hook), of="hooks")

    async def change_hook(self, hook: Hook) -> None:
        await self._do("edit", hook.name, "--file", self._written(hook), of="hooks")

    async def pause_hook(self, name: str, *, paused: bool) -> None:
        await self._do("pause" if paused else "resume", name, of="hooks")

    async def remove_hook(self, name: str) -> None:
        await self._do("remove", name, of="hooks")

    async def setting(self, name: str) -> Any:
        return json.loads(await self._do("get", name, of="settings"))

    async def set(self, name: str, value: Any) -> None:
        words = ("unset", name) if value is None else ("set", name, json.dumps(value))
        await self._do(*words, of="settings")

    async def talk(self, *prompts: str) -> str:
        options: dict[str, Any] = {"environ": {}, "data": self._command.home / "data"}
        async with callboard.open_runtime(
            model="rehearsal", workspace=self.work, **options
        ) as runtime:
            return await Methods(runtime, self.work).talk(*prompts)

    async def messages(self, session_id: str, **page: Any) -> list[MessageRow]:
        words = [f"--{name}={value}" for name, value in page.items() if name != "latest_first"]
        lines = await self._do("messages", session_id, "--json", *words, of="session")
        rows = [msgspec.convert(json.loads(line), MessageRow) for line in lines.splitlines()]
        return rows[::-1] if page.get("latest_first") else rows

    async def fork(self, session_id: str, message_id: str) -> str:
        said = await self._do("fork", session_id, message_id, of="session")
        return said.removeprefix("forked: ").strip()

    async def delete_messages(self, session_id: str, message_id: str) -> None:
        await self._do("delete-messages", session_id, message_id, of="session")

    async def skills(self) -> dict[str, Skill]:
        lines = (await self._do("--json", of="skills")).splitlines()
        found = [msgspec.convert(json.loads(line), Skill) for line in lines]
        return {skill.path: skill for skill in found}

    async def text(self, path: str) -> str:
        return await self._do("show", path, of="skills")

    async def allow(self, skill: Skill) -> None:
        await self._do("allow", skill.path, of="skills")

    async def revoke(self, path: str) -> None:
        await self._do("revoke", path, of="skills")

    def _written(self, its: Agent | Schedule | Hook) -> str:
        file = self._command.workspace / "fields.toml"
        file.write_text(fields_toml(its))
        return str(file)

    async def _do(self, *words: str, of: str = "agents") -> str:
        done = await self._run(self._command, of, *words)
        if done.code:
            raise CallboardError(done.err)
        return done.out


class Toml(Methods):
    """The operator's own file, in an editor, and a reload. It says nothing about skills."""

    source = "callboard.toml"

    def __init__(self, file: Path, runtime: callboard.Runtime, work: Path) -> None:
        super().__init__(runtime, work)
        self._file = file
        self._runtime = runtime
        self._tables: dict[str, Any] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._schedules: dict[str, Any] = {}
        self._hooks: dict[str, Any] = {}

    async def rows(self) -> dict[str, AgentRow]:
        return {row.name: row for row in await self._runtime.agents.list()}

    async def create(self, agent: Agent) -> None:
        values = {name: getattr(agent, name) for name in agent.__struct_fields__}
        plain = msgspec.to_builtins(values)
        table = {name: value for name, value in plain.items() if value is not None}
        await self._write({**self._tables, agent.name: _without_null(table)})

    async def update(self, agent: Agent) -> None:
        await self.create(agent)

    async def clone(self, name: str, new_name: str) -> None:
        copy = {**self._tables[name], "name": new_name}
        await self._write({**self._tables, new_name: copy})

    async def delete(self, name: str) -> None:
        await self._write({n: its for n, its in self._tables.items() if n != name})

    async def schedules(self) -> dict[str, ScheduleRow]:
        return {row.name: row for row in await self._runtime.schedules.list()}

    async def plan(self, schedule: Schedule) -> None:
        table = _without_null(msgspec.to_builtins(schedule))
        await self._plan({**self._schedules, schedule.name: table})

    async def replan(self, schedule: Schedule) -> None:
        await self.plan(schedule)

    async def pause(self, name: str, *, paused: bool) -> None:
        await self._plan({**self._schedules, name: {**self._schedules[name], "paused": paused}})

    async def unplan(self, name: str) -> None:
        await self._plan({n: its for n, its in self._schedules.items() if n != name})

    async def _plan(self, tables: dict[str, Any]) -> None:
        before, self._schedules = self._schedules, tables
        try:
            await self._write(self._tables)
        except CallboardError:
            self._schedules = before
            raise

    async def hooks(self) -> dict[str, HookRow]:
        return {row.name: row for row in await self._runtime.hooks.list()}

    async def add_hook(self, hook: Hook) -> None:
        table = _without_null(msgspec.to_builtins(hook))
        await self._hook({**self._hooks, hook.name: table})

    async def change_hook(self, hook: Hook) -> None:
        await self.add_hook(hook)

    async def remove_hook(self, name: str) -> None:
        await self._hook({n: its for n, its in self._hooks.items() if n != name})

    async def _hook(self, tables: dict[str, Any]) -> None:
        before, self._hooks = self._hooks, tables
        try:
            await self._write(self._tables)
        except CallboardError:
            self._hooks = before
            raise

    async def setting(self, name: str) -> Any:
        return (await self._runtime.settings.get(name)).value

    async def set(self, name: str, value: Any) -> None:
        table, _, field = name.partition(".")
        self._settings = {} if value is None else {table: {field: value}}
        try:
            await self._write(self._tables)
        except CallboardError:
            self._settings = {}
            raise

    async def _write(self, tables: dict[str, Any]) -> None:
        before = self._file.read_text()
        self._file.write_text(
            tomli_w.dumps(
                {
                    "agents": tables,
                    "schedules": self._schedules,
                    "hooks": self._hooks,
                    **self._settings,
                }
            )
        )
        try:
            await self._runtime.reload()
        except CallboardError:
            self._file.write_text(before)
            raise
        self._tables = tables


def _without_null(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_null(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


def options_of(folder: Path) -> dict[str, Any]:
    """The arguments of a runtime with files of its own."""
    (folder / "config").mkdir(mode=0o700, parents=True)
    (folder / "work").mkdir()
    (folder / "config" / "callboard.toml").touch()
    return {
        "model": "rehearsal",
        "config": folder / "config" / "callboard.toml",
        "data": folder / "data",
        "workspace": folder / "work",
        "environ": {"CALLBOARD_HOME": str(folder)},
    }


@asynccontextmanager
async def _trio(folder: Path, run: RunHere) -> AsyncGenerator[Door]:
    async with callboard.open_runtime(**options_of(folder)) as runtime:
        yield Methods(runtime, folder / "work")


@asynccontextmanager
async def _plain(folder: Path, run: RunHere) -> AsyncGenerator[Door]:
    options = options_of(folder)
    runtime = await trio.to_thread.run_sync(lambda: callboard.start_in_thread(**options))
    try:
        yield Blocking(runtime, folder / "work")
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(runtime.close)


@asynccontextmanager
async def _asyncio(folder: Path, run: RunHere) -> AsyncGenerator[Door]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="asyncio")
    thread.start()

    async def on_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        return await trio.to_thread.run_sync(future.result)

    try:
        options = options_of(folder)

        async def opened() -> aio.Runtime:
            return await aio.open_runtime(**options)

        runtime = await on_loop(opened())
        try:
            yield Asyncio(on_loop, runtime, folder / "work")
        finally:
            with trio.CancelScope(shield=True):
                await on_loop(runtime.aclose())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(thread.join)
        loop.close()


@asynccontextmanager
async def _websocket(folder: Path, run: RunHere) -> AsyncGenerator[Door]:
    async with served(folder) as (daemon, _), open_client(daemon) as client:
        (folder / "work").mkdir()
        await client.upkeep.add_root(str(folder / "work"))
        yield Remote(client, folder / "work")


@asynccontextmanager
async def _command_line(folder: Path, run: RunHere) -> AsyncGenerator[Door]:
    yield CommandLine(Command(folder), run)


@asynccontextmanager
async def _toml(folder: Path, run: RunHere) -> AsyncGenerator[Door]:
    options = options_of(folder)
    async with callboard.open_runtime(**options) as runtime:
        yield Toml(options["config"], runtime, folder / "work")


DOORS = {
    "trio": _trio,
    "asyncio": _asyncio,
    "plain": _plain,
    "websocket": _websocket,
    "commands": _command_line,
    "toml": _toml,
}
