"""What is played until a process dies, and what each flow adds to what must hold behind it."""

from __future__ import annotations

import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import trio

import callboard
from callboard.embedding.runtime import host_of
from callboard.embedding.unattended.scheduler import firing
from callboard.providers.testing.script import Fail, reply
from callboard.runtime.backup.backup import restore_backup, write_backup
from callboard.runtime.backup.upkeep import compact, upgrade
from callboard.runtime.channel import UserQuestion
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import InputAccepted, TurnEnded
from callboard.runtime.schedules.schedule import Schedule
from callboard.runtime.stream import StreamError
from support.crash.mortal import lines, say

WRITE = ("write_file", {"path": "n/new.txt", "content": "written"})
EDIT = ("edit_file", {"path": "a.txt", "edits": [{"old_text": "first", "new_text": "second"}]})
DELETE = ("delete_file", {"path": "b.txt"})
NOTE = ("note", {"text": "one"})
ASKED = ("asked", {"text": "one"})
AWAY = ("delegate", {"kind": "branch", "task": "Do it."})
WHICH = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})
DONE = reply("Done.")
OVERLOADED = Fail(StreamError(error_type="provider", message="It broke."))
TOO_LONG = Fail(StreamError(error_type="context_overflow", message="It is too long."))

OLD_DATA = Path(__file__).parents[2] / "runtime" / "data" / "data-0.1.0.tar.xz"
OLD_EVENTS = 45


def tools(folder: Path) -> list[Any]:
    def effect(context: callboard.ToolContext, text: str) -> str:
        say(folder / "effects", f"{context.call_id} {context.session_id}")
        return text

    @callboard.tool(tier="workspace")
    def note(context: callboard.ToolContext, text: str) -> str:
        """Has an effect that can be counted."""
        return effect(context, text)

    @callboard.tool(tier="workspace", approval="always")
    def asked(context: callboard.ToolContext, text: str) -> str:
        """Has one, and asks before."""
        return effect(context, text)

    @callboard.tool(tier="read_only", effect="read")
    def look() -> str:
        """Has none."""
        return "seen"

    return [note, asked, look]


class Person(callboard.Channel):
    """Allows everything, some of it with other arguments; with `is_away`, answers nothing."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.is_connected = not is_away

    async def approve(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        changed = '{"text": "two"}' if request.tool == "asked" else None
        return callboard.ApprovalAnswer(decision="allow", arguments=changed)

    async def ask(self, question: UserQuestion) -> str:
        await trio.lowlevel.checkpoint()
        return "left"


def opened(folder: Path, steps: list[Any], **options: Any) -> Any:
    return callboard.open_runtime(
        model=callboard.ScriptedModel(steps),
        workspace=folder / "work",
        environ={},
        tools=tools(folder),
        **{"policy": "balanced", "data": folder / "data", "channel": Person(), **options},
    )


async def prompted(folder: Path, session: callboard.Session, text: str = "Go.") -> None:
    """Prompt, note that the input was acknowledged, and listen to the end."""
    async with session.prompt(text) as turn:
        say(folder / "acked", f"{session.session_id} {text}")
        with suppress(ConflictError):  # suspended
            async for _ in turn:
                pass


async def at_rest(runtime: callboard.Runtime) -> None:
    """Return when no turn is open and no input waits."""
    with trio.fail_after(60):
        for row in await runtime.sessions(limit=100):
            while await runtime.store.open_inputs(row.session_id):  # noqa: ASYNC110
                await trio.sleep(0.002)
        while await runtime.store.open_turns():  # noqa: ASYNC110
            await trio.sleep(0.002)


class Flow:
    """A prompt with calls, in a runtime of its own."""

    steps: ClassVar[list[Any]] = [reply(calls=[WRITE, EDIT, NOTE, ("look", {})]), DONE]
    options: ClassVar[dict[str, Any]] = {}
    has_programs: ClassVar = False
    """Whether programs run beside the process, which only its death ends."""

    def configured(self, folder: Path) -> dict[str, Any]:
        """What each of its runtimes is opened with."""
        return {}

    async def before(self, folder: Path) -> None:
        """What is there already."""

    async def play(self, folder: Path) -> None:
        """What the process dies in."""
        options = {**self.options, **self.configured(folder)}
        async with opened(folder, self.steps, **options) as runtime:
            session = await runtime.create_session()
            say(folder / "made", session.session_id)
            await self.use(folder, runtime, session)

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await prompted(folder, session)

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        """What must hold besides, when all is at rest."""


class Approval(Flow):
    steps: ClassVar = [reply(calls=[DELETE, ASKED]), DONE]


class Delegation(Flow):
    steps: ClassVar = [reply(calls=[AWAY]), reply(calls=[NOTE, EDIT]), reply("Mine."), DONE]


class Undo(Flow):
    steps: ClassVar = [reply(calls=[EDIT]), reply(calls=[DELETE, NOTE]), DONE]

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await prompted(folder, session)
        await session.undo()


class Deferral(Flow):
    """The turn goes on, and a late answer starts one of its own."""

    steps: ClassVar = [reply(calls=[ASKED]), reply("It is pending."), DONE]
    options: ClassVar = {
        "agents": [callboard.Agent(defer=True)],
        "channel": Person(is_away=True),
    }

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await prompted(folder, session)
        [row] = await runtime.approvals()
        await runtime.answer(row.approval_id, "allow")
        say(folder / "answered", session.session_id)
        await at_rest(runtime)

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        for row in await runtime.approvals():
            await runtime.answer(row.approval_id, "deny")
        await at_rest(runtime)
        if lines(folder / "answered"):
            states = [row.state for row in await runtime.approvals(state=None)]
            assert "denied" not in states, f"an answer was lost: {states}"


class Compaction(Flow):
    steps: ClassVar = [reply("x" * 400), reply("y" * 400), TOO_LONG, reply("NOTES"), DONE]

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        for text in ("Go.", "On.", "More."):
            await prompted(folder, session, text)


class Retry(Flow):
    steps: ClassVar = [reply(calls=[EDIT]), OVERLOADED, reply(calls=[NOTE]), DONE]

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await prompted(folder, session)
        async with session.retry() as turn:
            async for _ in turn:
                pass


class Suspension(Flow):
    """A call and a question wait for a person over an orderly stop, and are answered in the next life."""

    steps: ClassVar = [reply(calls=[WHICH, ASKED])]

    async def play(self, folder: Path) -> None:
        away = Person(is_away=True)
        async with trio.open_nursery() as nursery:
            async with opened(folder, self.steps, channel=away) as runtime:
                session = await runtime.create_session()
                say(folder / "made", session.session_id)
                nursery.start_soon(prompted, folder, session)
                with trio.fail_after(60):
                    while not (await runtime.approvals() and await runtime.questions()):  # noqa: ASYNC110
                        await trio.sleep(0.002)
        async with opened(folder, [DONE]) as runtime:
            session = await runtime.get_session(session.session_id)
            turn = await session.resume()
            assert turn is not None
            async with turn:
                assert await turn.answer() == "Done."


class Background(Flow):
    """A program that runs on when its call has its result, and ends with its runtime."""

    has_programs: ClassVar = True
    steps: ClassVar = [
        reply(
            calls=[("shell", {"command": "echo up >> up.txt; sleep 4321.5", "background": True})]
        ),
        DONE,
    ]

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        assert len(lines(folder / "work" / "up.txt")) <= 1, "it was run twice"
        work = str(folder / "work")
        with trio.fail_after(20):  # noqa: ASYNC912  nothing to wait for is good
            while any("sleep 4321.5" in each and work in each for each in commands()):  # noqa: ASYNC110
                await trio.sleep(0.01)


class Fork(Flow):
    """A session goes on from a message of another one: all that was said up to there, or nothing."""

    steps: ClassVar = [reply(calls=[EDIT]), reply("Here."), DONE]

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await prompted(folder, session)
        fork = await session.fork()
        say(folder / "made", fork.session_id)
        await prompted(folder, fork, "On.")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        made = lines(folder / "made")
        for row in await runtime.sessions(limit=100):
            if made and row.session_id != made[0]:
                texts = [
                    str(message.content) for message in await runtime.store.messages(row.session_id)
                ]
                assert "Here." in texts, texts


class Messages(Flow):
    """A message is deleted, for good."""

    steps: ClassVar = [reply(calls=[EDIT]), reply("Forget me."), DONE]

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await prompted(folder, session)
        said = [each for each in await session.messages() if each.content == "Forget me."]
        await session.delete_messages([each.message_id for each in said])
        say(folder / "deleted", "")
        await prompted(folder, session, "On.")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        if not lines(folder / "deleted"):
            return
        [made] = lines(folder / "made")
        texts = [str(message.content) for message in await runtime.store.messages(made)]
        assert "Forget me." not in texts, texts
        assert await runtime.search("Forget") == []


class Direct(Flow):
    """Calls that a program makes without a model."""

    steps: ClassVar = []

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        calls = [
            ("write_file", {"path": "n/new.txt", "content": "written"}),
            ("note", {"text": "one"}),
        ]
        await runtime.call_tools(calls, session=session)
        await runtime.call_tool("edit_file", EDIT[1], session=session)
        say(folder / "called", session.session_id)

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        if lines(folder / "called"):
            [made] = lines(folder / "made")
            rows = await runtime.store.calls(session_id=made)
            assert [row.status for row in rows] == ["success"] * 3, rows


class Agents(Flow):
    """An agent is made and deleted; General Assistant takes over its session."""

    steps: ClassVar = [reply(calls=[EDIT]), DONE]

    def configured(self, folder: Path) -> dict[str, Any]:
        return {"config": folder / "config" / "callboard.toml", "policy": None}

    async def before(self, folder: Path) -> None:
        (folder / "config").mkdir(mode=0o700)

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        await runtime.agents.create(callboard.Agent(name="helper"))
        say(folder / "agent made", "")
        helped = await runtime.create_session(agent="helper")
        say(folder / "made", helped.session_id)
        await prompted(folder, helped)
        await runtime.agents.delete("helper")
        say(folder / "agent deleted", "")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        names = {row.name for row in await runtime.agents.list()}
        is_made, is_gone = (bool(lines(folder / f"agent {each}")) for each in ("made", "deleted"))
        assert "helper" in names or is_gone or not is_made or len(lines(folder / "made")) == 2, (
            names
        )
        assert "helper" not in names or not is_gone, "it is there again"
        used = {row.agent for row in await runtime.sessions(limit=100)}
        assert used <= names, f"sessions of agents that are gone: {used - names}"


def commands() -> list[str]:
    """The command line of every process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


class Import(Flow):
    """A session with a delegated one is taken in from a file, whole or not at all."""

    async def before(self, folder: Path) -> None:
        async with opened(folder, Delegation.steps) as runtime:
            session = await runtime.create_session()
            await prompted(folder, session)
            exported = await host_of(runtime).keeping.export(session.session_id)
        (folder / "export").write_bytes(b"".join(exported))
        (folder / "made").write_text(session.session_id + "\n")

    async def play(self, folder: Path) -> None:
        exported = (folder / "export").read_bytes().splitlines()
        async with opened(folder, []) as runtime:
            taken = await host_of(runtime).keeping.import_lines(exported, str(folder / "work"))
            say(folder / "taken", taken)
            say(folder / "made", taken)

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        rows = await runtime.sessions(limit=100)
        assert len(rows) in {2, 4}, rows
        assert len(rows) == 4 or not lines(folder / "taken")
        counts = []
        for row in rows:
            events = [each.event for each in await runtime.store.events(row.session_id)]
            counts.append(sum(isinstance(e, TurnEnded) for e in events))
        assert min(counts) >= 1, counts


class Purge(Flow):
    """A session with its delegated one and its versions goes for good; the other stays."""

    async def before(self, folder: Path) -> None:
        steps = [reply(calls=[AWAY]), reply(calls=[WRITE]), reply("Mine."), DONE]
        async with opened(folder, [*steps, DONE]) as runtime:
            gone, stays = await runtime.create_session(), await runtime.create_session()
            await gone.run("Go.")
            await prompted(folder, stays)
            say(folder / "made", stays.session_id)
            say(folder / "going", gone.session_id)
            await gone.delete()

    async def play(self, folder: Path) -> None:
        [going] = lines(folder / "going")
        async with opened(folder, []) as runtime:
            await runtime.purge([going])
            say(folder / "purged", going)

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        [going] = lines(folder / "going")
        tree = await runtime.store.session_tree([going])
        assert not tree or not lines(folder / "purged"), "it is there again"
        with suppress(NotFoundError):
            await runtime.purge([going])
        assert await runtime.store.session_tree([going]) == []
        await host_of(runtime).pruning.look()  # as it does at its start, meanwhile
        logs = {path.stem for path in (folder / "data" / "callboard.versions").glob("*.log")}
        rows = {row.session_id for row in await runtime.sessions(limit=100)}
        assert logs <= rows, f"versions of purged sessions: {logs - rows}"


class Backup(Flow):
    """A backup is made while a turn runs."""

    async def use(
        self, folder: Path, runtime: callboard.Runtime, session: callboard.Session
    ) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompted, folder, session)
            await trio.to_thread.run_sync(write_backup, folder / "data", folder / "copy.db")
            say(folder / "copied", "")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        copy = folder / "copy.db"
        is_whole = copy.exists() and copy.stat().st_size > 0  # its name is reserved first
        assert is_whole or not lines(folder / "copied")
        if is_whole:
            await trio.to_thread.run_sync(restore_backup, folder / "other", copy)
            async with opened(folder, [], data=folder / "other", wake=False) as other:
                await other.sessions()


class Restore(Flow):
    """A backup takes the place of what came since, whole or not at all."""

    async def before(self, folder: Path) -> None:
        async with opened(folder, [reply(calls=[EDIT]), *[DONE] * 9]) as runtime:
            session = await runtime.create_session()
            await prompted(folder, session)
            await trio.to_thread.run_sync(write_backup, folder / "data", folder / "copy.db")
            say(folder / "made", session.session_id)
            await session.run("Since.")

    async def play(self, folder: Path) -> None:
        await trio.to_thread.run_sync(restore_backup, folder / "data", folder / "copy.db")
        say(folder / "restored", "")
        async with opened(folder, [DONE]) as runtime:
            [row] = await runtime.sessions()
            await prompted(folder, await runtime.get_session(row.session_id), "Again.")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        [row] = await runtime.sessions()
        said = [
            each.event.text
            for each in await runtime.store.events(row.session_id)
            if isinstance(each.event, InputAccepted)
        ]
        assert said[0] == "Go."
        assert "Since." not in said or not lines(folder / "restored"), said
        assert not ("Since." in said and "Again." in said), said


class Vacuum(Restore):
    """The store is written anew without what was purged."""

    async def play(self, folder: Path) -> None:
        await trio.to_thread.run_sync(compact, folder / "data")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        await super().judge(folder, runtime)
        [row] = await runtime.sessions()
        assert row.message_count >= 4


class Migration(Flow):
    """Data of callboard 0.1.0 are opened, after a backup or without one."""

    async def before(self, folder: Path) -> None:
        with tarfile.open(OLD_DATA) as archive:
            archive.extractall(folder, filter="data")

    async def prepare(self, folder: Path) -> None:
        """What is done before it is opened."""

    async def play(self, folder: Path) -> None:
        await self.prepare(folder)
        async with opened(folder, [DONE], wake=False) as runtime:
            rows = {row.title: row.session_id for row in await runtime.sessions()}
            session = await runtime.get_session(rows["Writes a file"])
            say(folder / "made", session.session_id)
            await prompted(folder, session, "On.")

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        await runtime.search("tokyo")
        count = 0
        for name in await runtime.store.session_tree(
            [r.session_id for r in await runtime.sessions()]
        ):
            count += len(await runtime.store.events(name))
        assert count >= OLD_EVENTS - 5, count  # a deleted session is not listed


class Upgrade(Migration):
    async def prepare(self, folder: Path) -> None:
        await trio.to_thread.run_sync(upgrade, folder / "data")


class Firing(Flow):
    """The time of a schedule comes; whoever dies then, its input is made once."""

    steps: ClassVar = [DONE]
    planned_ms: ClassVar = 1_793_606_400_000
    settings: ClassVar = callboard.Settings(
        schedules={"hourly": Schedule(name="hourly", prompt="Look.", every="1h")}
    )

    async def before(self, folder: Path) -> None:
        async with opened(folder, [], settings=self.settings) as runtime:
            await self.look(runtime, self.planned_ms - 1, is_first=True)

    async def play(self, folder: Path) -> None:
        async with opened(folder, self.steps, settings=self.settings) as runtime:
            await self.look(runtime, self.planned_ms)
            say(folder / "fired", "")
            await at_rest(runtime)

    async def judge(self, folder: Path, runtime: callboard.Runtime) -> None:
        fired = len(lines(folder / "fired"))
        assert len(await runtime.store.named_inputs(("schedule:hourly",), 9)) >= fired, (
            "it was lost"
        )
        await runtime.reload(self.settings)
        await self.look(runtime, self.planned_ms + 1)
        [row] = await runtime.store.named_inputs(("schedule:hourly",), 9)
        await at_rest(runtime)
        assert len(await runtime.sessions()) == 1, "a session was begun for nothing"
        (folder / "made").write_text(row.session_id + "\n")

    async def look(
        self, runtime: callboard.Runtime, now_ms: int, *, is_first: bool = False
    ) -> None:
        """Fire what is due at a time, and wait until that is settled on the disk."""
        settled, due = runtime.schedules.settled, now_ms if is_first else self.planned_ms
        runtime.schedules.clock = lambda: now_ms
        async with firing(runtime.schedules):
            with trio.fail_after(60):  # noqa: ASYNC912  nothing to wait for is good
                while (entry := settled.known("hourly")) is None or entry.until_ms < due:  # noqa: ASYNC110
                    await trio.sleep(0.002)
            await settled.save()


FLOWS: dict[str, Flow] = {
    "parallel": Flow(),
    "approval": Approval(),
    "delegation": Delegation(),
    "undo": Undo(),
    "deferral": Deferral(),
    "compaction": Compaction(),
    "retry": Retry(),
    "suspension": Suspension(),
    "background": Background(),
    "fork": Fork(),
    "messages": Messages(),
    "direct": Direct(),
    "agents": Agents(),
    "import": Import(),
    "purge": Purge(),
    "backup": Backup(),
    "restore": Restore(),
    "vacuum": Vacuum(),
    "migration": Migration(),
    "upgrade": Upgrade(),
    "firing": Firing(),
}
