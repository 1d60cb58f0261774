"""ADR-0004 on tiers, approvals, session kinds and retries: every line, and that it is so.

Where a line is of another platform's words, the test says what stands for it here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.definitions import Capability, Effect, SessionKind, ToolFailure
from callboard.runtime.event_types.calls import CallDeferred, ToolGivenUp
from callboard.runtime.events import ApprovalAsked, ChildAsks, MessageSent
from callboard.runtime.handles import Delegation
from callboard.tools.registry import HANDLES, ToolRegistry, builtin_tools
from callboard.tools.tool import Tool
from support.flows.seed_lines import Lines
from support.stage import open_local_stage, play, play_in, read_result

ADR = Lines(
    [
        "ReadOnly: observe only, never mutate.",
        "Workspace: mutate within the agent's workspace.",
        "System: mutate outside workspace.",
        "Elevated: irreversible or high-impact.",
        "`ReadOnly` and `Workspace`: always allowed, no approval needed.",
        "`System`: allowed by default.",
        "`System` can be restricted per-agent or per-channel via policy config.",
        "`Elevated`: requires explicit human approval before execution.",
        "The runtime presents the tool call to the human and blocks until approved or denied.",
        "Deferred approval: agent continues other non-blocked work while waiting.",
        "Branches pass Elevated requests up the parent chain until they reach a session with a "
        "channel handle (typically Main).",
        "The approval prompt is displayed there.",
        "The originating branch suspends that tool call while waiting; it can continue other "
        "non-Elevated work in the meantime.",
        "If the entire parent chain has no channel, the request is denied with a "
        "`PermissionDenied` error.",
        "ToolContext: session_id, agent_id, workspace_root, memory, channel, config.",
        "Tools receive only what they need.",
        "A Worker session's `ToolContext` will have `channel: None`.",
        "ValidationError { message, field }: retry eligible.",
        "ExecutionError: not retry eligible.",
        "PermissionDenied { tier, reason }: never retry.",
        "Timeout { elapsed }: retry eligible with backoff.",
        "Runtime validates args against `parameters_schema()`.",
        "On `ValidationError`: send the error back to the model with the schema and the specific "
        "field that failed.",
        "Model retries with corrected args.",
        "Max 2 retries (3 total attempts). After that, surface the error to the parent session.",
        "Retry loop must be implemented in the dispatcher (not in individual tools).",
        "Tool availability per session kind: the table.",
        "Workers are read-only by design.",
        "Tool availability is enforced structurally via `ToolContext` construction: even if a "
        "tool is somehow registered for a Worker session, it cannot mutate anything.",
        "Tools that require these capabilities receive `None` and return `PermissionDenied`.",
        "Branches inherit the parent's channel handle: a branch can send messages on behalf of "
        "the parent.",
        "Channel policies govern what the branch can actually send.",
        "Elevated tier tools need an approval flow (block and prompt in the Main session's "
        "channel).",
        "Structured results enable parent sessions to make programmatic decisions about child "
        "outputs.",
    ]
)

ROWS: Mapping[str, tuple[str, str]] = {
    "Read": ("read_file", "main branch worker"),
    "Write": ("write_file", "main branch"),
    "Edit": ("edit_file", "main branch"),
    "Shell": ("shell", "main branch"),
    "Message": ("message", "main branch"),
    "Memory Search": ("memory_search", "main branch worker"),
    "Memory Store": ("memory_store", "main branch"),
    "Web Search": ("web_search", "main branch worker"),
    "Web Fetch": ("web_fetch", "main branch worker"),
}
"""The table of kinds: our name of each tool, and where it is available."""


class Desk(callboard.Channel):
    """Where a person sits who says yes, and keeps what they were shown.

    Attributes:
        gate: What they wait for before they answer.
    """

    name = "desk"

    def __init__(self, *, is_open: bool = True) -> None:
        self.shown: list[callboard.ApprovalRequest] = []
        self.told: list[callboard.ChannelMessage] = []
        self.asked = trio.Event()
        self.gate = trio.Event()
        if is_open:
            self.gate.set()

    async def approve(self, request: callboard.ApprovalRequest) -> bool:
        self.shown.append(request)
        self.asked.set()
        await self.gate.wait()
        return True

    async def tell(self, message: callboard.ChannelMessage) -> None:
        self.told.append(message)


def tool_of(tier: str, ran: list[str], **options: Any) -> Tool:
    """A tool of a tier, of its own name, that notes its run."""

    @callboard.tool(name=f"{tier}_tool", tier=tier, **options)
    def act() -> str:
        """Acts."""
        ran.append(tier)
        return "acted"

    return act


def tools_of(ran: list[str]) -> list[Tool]:
    return [tool_of(tier, ran) for tier in callboard.Tier]


CALL_EACH: list[tuple[str, dict[str, Any]]] = [(f"{tier}_tool", {}) for tier in callboard.Tier]


# ── tiers ────────────────────────────────────────────────────────────────────────────────────────


@ADR.says(
    "ReadOnly: observe only, never mutate.",
    "Workspace: mutate within the agent's workspace.",
    "System: mutate outside workspace.",
    "Elevated: irreversible or high-impact.",
)
def test_each_tier_holds_tools_of_its_kind() -> None:
    tiers: dict[str, set[str]] = {}
    for tool in builtin_tools():
        tiers.setdefault(tool.definition.tier, set()).add(tool.definition.name)
        if tool.definition.tier is callboard.Tier.READ_ONLY:
            changes = {Capability.FILES_WRITE, Capability.MEMORY_WRITE}
            assert not changes & set(tool.definition.needs)
            # A question to a person is asked once, though it changes nothing.
            assert tool.definition.effect is not Effect.ONCE or tool.definition.name == "ask_user"
    assert {"get_current_time", "read_file"} <= tiers["read_only"]
    assert {"write_file", "delete_file"} <= tiers["workspace"]
    assert {"http_request", "message"} <= tiers["system"]
    # What reaches others for good, or brings in what others wrote.
    assert tiers["elevated"] == {"git_push", "install_package"}
    assert [tier.rank for tier in callboard.Tier] == [0, 1, 2, 3]


@ADR.says(
    "`ReadOnly` and `Workspace`: always allowed, no approval needed.",
    "`System`: allowed by default.",
    "`Elevated`: requires explicit human approval before execution.",
)
@pytest.mark.parametrize("preset", ["auto", "balanced"])
async def test_elevated_alone_asks_by_tier(tmp_path: Path, preset: str) -> None:
    for answer in (True, False):
        ran: list[str] = []
        asked: list[str] = []

        async def ask(
            request: callboard.ApprovalRequest, asked: list[str] = asked, answer: bool = answer
        ) -> bool:
            asked.append(request.tool)
            return answer

        steps: list[ScriptStep] = [reply(calls=CALL_EACH), reply("Done.")]
        options: dict[str, Any] = {"tools": tools_of(ran), "policy": preset, "on_approval": ask}
        async with open_local_stage(tmp_path, steps, **options) as (runtime, _):
            await play(await runtime.create_session(), "Go.")
        assert asked == ["elevated_tool"]
        assert sorted(ran) == sorted(["read_only", "workspace", "system", "elevated"][: 3 + answer])


@ADR.says(
    "`System` can be restricted per-agent or per-channel via policy config.",
)
@pytest.mark.parametrize("whose", ["agent", "channel", "nobody's"])
async def test_system_can_be_restricted(tmp_path: Path, whose: str) -> None:
    rule = {
        "agent": '[[agents.general.rules]]\ntier = "system"\nverdict = "deny"\n',
        "channel": '[[rules]]\nchannel = "desk"\ntier = "system"\nverdict = "deny"\n',
        "nobody's": '[[rules]]\nchannel = "elsewhere"\ntier = "system"\nverdict = "deny"\n',
    }[whose]
    from callboard.config.files import load_settings

    path = tmp_path / "callboard.toml"
    path.write_text(rule)
    ran: list[str] = []
    steps: list[ScriptStep] = [reply(calls=[("system_tool", {})]), reply("Done.")]
    async with open_local_stage(
        tmp_path, steps, tools=tools_of(ran), channel=Desk(), settings=load_settings(path)
    ) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    denied = whose != "nobody's"
    assert played.statuses == [("system_tool", "denied" if denied else "success")]
    assert ran == ([] if denied else ["system"])


# ── approval ─────────────────────────────────────────────────────────────────────────────────────


@ADR.says(
    "The runtime presents the tool call to the human and blocks until approved or denied.",
    "Elevated tier tools need an approval flow (block and prompt in the Main session's channel).",
)
async def test_the_call_waits_for_the_person(tmp_path: Path) -> None:
    ran: list[str] = []
    desk = Desk(is_open=False)
    steps: list[ScriptStep] = [reply(calls=[("elevated_tool", {})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=tools_of(ran), channel=desk) as (runtime, _):
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play, session, "Go.")
            await desk.asked.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert ran == []
            desk.gate.set()
    assert ran == ["elevated"]
    [request] = desk.shown
    assert (request.session_id, request.tool) == (session.session_id, "elevated_tool")
    assert request.tier is callboard.Tier.ELEVATED


@ADR.says("Deferred approval: agent continues other non-blocked work while waiting.")
@pytest.mark.parametrize("defer", [False, True])
async def test_other_work_goes_on(tmp_path: Path, defer: bool) -> None:
    ran: list[str] = []
    desk = Desk(is_open=False)
    agent = callboard.Agent(defer=defer)
    both = reply(calls=[("elevated_tool", {}), ("system_tool", {})])
    steps: list[ScriptStep] = [both, reply("Done."), *([reply("Late.")] if defer else [])]
    async with open_local_stage(
        tmp_path, steps, tools=tools_of(ran), channel=desk, agents=[agent]
    ) as (runtime, _):
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            if defer:  # the whole turn goes on; the call runs in one of its own
                played = await play(session, "Go.")
                assert [e.name for e in played.events if isinstance(e, CallDeferred)]
                assert played.ended.outcome == "answered"
            else:  # its siblings do
                nursery.start_soon(play, session, "Go.")
                await desk.asked.wait()
                while not ran:
                    await trio.testing.wait_all_tasks_blocked()
            assert ran == ["system"]
            desk.gate.set()
            while len(ran) < 2:
                await trio.testing.wait_all_tasks_blocked()
            if defer and (turn := await session.resume()) is not None:
                async with turn:
                    assert await turn.answer() == "Late."
    assert ran == ["system", "elevated"]


def delegated(kind: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("delegate", {"kind": kind, "task": "Do it.", **more})


@ADR.says(
    "Branches pass Elevated requests up the parent chain until they reach a session with a "
    "channel handle (typically Main).",
    "The approval prompt is displayed there.",
    "The originating branch suspends that tool call while waiting; it can continue other "
    "non-Elevated work in the meantime.",
)
async def test_a_deep_branch_asks_where_the_people_are(tmp_path: Path) -> None:
    ran: list[str] = []
    desk = Desk(is_open=False)
    steps: list[ScriptStep] = [
        reply(calls=[delegated("branch")]),
        reply(calls=[delegated("branch")]),
        reply(calls=[("elevated_tool", {}), ("system_tool", {})]),
        reply("Deepest."),
        reply("Deep."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, tools=tools_of(ran), channel=desk) as (runtime, _):
        main = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play, main, "Go.")
            await desk.asked.wait()
            while not ran:
                await trio.testing.wait_all_tasks_blocked()
            assert ran == ["system"]
            desk.gate.set()
        [request] = desk.shown
        record = [stored.event for stored in await runtime.store.events(main.session_id)]
        [asks] = [event for event in record if isinstance(event, ChildAsks)]
        assert request.asked_in == main.session_id
        assert request.session_id == asks.child_id != main.session_id
        deep = [stored.event for stored in await runtime.store.events(asks.child_id)]
        assert [e.asked_in for e in deep if isinstance(e, ApprovalAsked)] == [main.session_id]
    assert ran == ["system", "elevated"]


@ADR.says(
    "If the entire parent chain has no channel, the request is denied with a "
    "`PermissionDenied` error.",
)
async def test_without_any_channel_the_answer_is_no(tmp_path: Path) -> None:
    ran: list[str] = []
    steps: list[ScriptStep] = [
        reply(calls=[delegated("branch")]),
        reply(calls=[("elevated_tool", {})]),
        reply("It was denied."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, tools=tools_of(ran)) as (runtime, model):
        await play(await runtime.create_session(), "Go.")
    result = json.loads(model.requests[2].rounds[-1].items[-1].content)  # type: ignore[union-attr]
    assert (result["error_type"], result["tier"]) == ("permission_denied", "elevated")
    assert ran == []


# ── the context ──────────────────────────────────────────────────────────────────────────────────


@ADR.says(
    "ToolContext: session_id, agent_id, workspace_root, memory, channel, config.",
    "Tools receive only what they need.",
)
@pytest.mark.parametrize("needs", [[], ["files.read"], ["files.write"], ["channel"], ["sessions"]])
async def test_a_context_holds_what_the_tool_needs(tmp_path: Path, needs: list[str]) -> None:
    """The agent's id and the configuration are `agent`; the workspace is a handle, no path."""
    seen: list[callboard.ToolContext] = []

    @callboard.tool(needs=needs)
    def look(context: callboard.ToolContext) -> str:
        """Looks at its context."""
        seen.append(context)
        return "seen"

    steps: list[ScriptStep] = [reply(calls=[("look", {})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[look], channel=Desk()) as (runtime, _):
        session, _ = await play_in(runtime, "Go.")
    [context] = seen
    assert context.session_id == session.session_id
    assert context.session_kind is SessionKind.MAIN
    assert context.agent.name == "general"
    held = {
        name
        for name in ("files_read", "files_write", "network", "channel", "sessions")
        if getattr(context, name) is not None
    }
    wanted = {need.replace(".", "_") for need in needs}
    assert held == (wanted | {"files_read"} if "files_write" in wanted else wanted)


@ADR.says(
    "A Worker session's `ToolContext` will have `channel: None`.",
    "Workers are read-only by design.",
    "Tool availability is enforced structurally via `ToolContext` construction: even if a tool is "
    "somehow registered for a Worker session, it cannot mutate anything.",
    "Tools that require these capabilities receive `None` and return `PermissionDenied`.",
)
@pytest.mark.parametrize("need", ["files.write", "channel", "sessions", "files.read"])
async def test_a_worker_has_no_handle_to_change_anything(
    tmp_path: Path, need: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @callboard.tool(tier="read_only", needs=[need])
    def sneak(context: callboard.ToolContext) -> str:
        """Says that it only reads."""
        ran.append(need)
        return "ran"

    # Somehow it is registered for workers all the same.
    for module in ("actors.delegation.tree", "tools.registry"):
        monkeypatch.setattr(f"callboard.{module}.is_available", lambda *_: True, raising=False)
    steps: list[ScriptStep] = [
        reply(calls=[delegated("worker")]),
        reply(calls=[("sneak", {})]),
        reply("Tried."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, tools=[sneak], channel=Desk()) as (runtime, model):
        await play(await runtime.create_session(), "Go.")
    result = json.loads(model.requests[2].rounds[-1].items[-1].content)  # type: ignore[union-attr]
    if need == "files.read":  # the control: what it may have, it has
        assert (ran, result["status"]) == ([need], "success")
    else:
        assert ran == []
        assert result["error_type"] == "permission_denied"
        assert need in result["message"]


@ADR.says("Tool availability per session kind: the table.")
def test_the_table_of_kinds() -> None:
    tools = ToolRegistry(builtin_tools())
    offered = {kind: {its.name for its in tools.definitions(None, kind)} for kind in SessionKind}
    needs = {tool.definition.name: set(tool.definition.needs) for tool in builtin_tools()}
    for name, kinds in ROWS.values():
        for kind in SessionKind:
            assert (name in offered[kind]) == (kind in kinds.split()), (name, kind)
            # By its handles too, whatever is registered.
            assert (needs[name] <= HANDLES[kind]) == (kind in kinds.split()), (name, kind)


@ADR.says(
    "Branches inherit the parent's channel handle: a branch can send messages on behalf of the "
    "parent.",
    "Channel policies govern what the branch can actually send.",
)
@pytest.mark.parametrize("is_denied", [False, True])
async def test_a_branch_speaks_for_its_parent(tmp_path: Path, is_denied: bool) -> None:
    from callboard.config.files import load_settings

    path = tmp_path / "callboard.toml"
    rule = '[[rules]]\nchannel = "desk"\ntool = "message"\nverdict = "deny"\n'
    path.write_text(rule if is_denied else "")
    desk = Desk()
    steps: list[ScriptStep] = [
        reply(calls=[delegated("branch")]),
        reply(calls=[("message", {"text": "Halfway."})]),
        reply("Told."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, channel=desk, settings=load_settings(path)) as (
        runtime,
        _,
    ):
        main, _ = await play_in(runtime, "Go.")
        record = [stored.event for stored in await runtime.store.events(main.session_id)]
    sent = [event for event in record if isinstance(event, MessageSent)]
    assert [message.text for message in desk.told] == ([] if is_denied else ["Halfway."])
    assert [bool(event.child_id) for event in sent] == ([] if is_denied else [True])


@ADR.says(
    "Structured results enable parent sessions to make programmatic decisions about child outputs.",
)
async def test_a_program_reads_what_a_child_gave(tmp_path: Path) -> None:
    outcomes: list[str] = []

    @callboard.tool(tier="workspace", needs=["sessions"])
    async def supervise(context: callboard.ToolContext) -> str:
        """Lets a worker look, and decides by what came of it."""
        task = Delegation(kind=SessionKind.WORKER, task="Look.")
        assert context.sessions is not None
        came = await context.sessions.delegate(task)
        outcomes.append(came.outcome)
        return came.answer if came.outcome == "answered" else "nothing"

    steps: list[ScriptStep] = [reply(calls=[("supervise", {})]), reply("42"), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[supervise]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    [result] = played.results
    assert (outcomes, read_result(result)["result"]) == (["answered"], "42")


# ── errors and retries ───────────────────────────────────────────────────────────────────────────


@callboard.tool(tier="read_only", timeout_seconds=5)
async def fail_as(how: str, times: int = 1) -> str:
    """Fails."""
    if how == "timeout":
        await trio.sleep_forever()
    raise ZeroDivisionError(how)


async def result_of(
    folder: Path, call: tuple[str, dict[str, Any]], **options: Any
) -> dict[str, Any]:
    steps: list[ScriptStep] = [reply(calls=[call]), reply("Done.")]
    async with open_local_stage(folder, steps, **options) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    [result] = played.results
    return read_result(result)


@ADR.says(
    "ValidationError { message, field }: retry eligible.",
    "ExecutionError: not retry eligible.",
    "PermissionDenied { tier, reason }: never retry.",
    "Timeout { elapsed }: retry eligible with backoff.",
    "Runtime validates args against `parameters_schema()`.",
    "On `ValidationError`: send the error back to the model with the schema and the specific field "
    "that failed.",
)
async def test_each_error_says_what_it_is(tmp_path: Path, autojump_clock: Any) -> None:
    ran: list[str] = []
    tools = [fail_as, tool_of("elevated", ran)]
    wrong = await result_of(tmp_path, ("fail_as", {"how": "x", "times": "many"}), tools=tools)
    assert (wrong["error_type"], wrong["field"]) == ("validation_error", "times")
    assert wrong["schema"]["properties"]["times"]["type"] == "integer"
    crashed = await result_of(tmp_path, ("fail_as", {"how": "x"}), tools=tools)
    assert (crashed["error_type"], "x" in crashed["message"]) == ("execution_error", True)
    late = await result_of(tmp_path, ("fail_as", {"how": "timeout"}), tools=tools)
    assert (late["error_type"], late["elapsed_seconds"]) == ("timeout", 5)
    denied = await result_of(tmp_path, ("elevated_tool", {}), tools=tools, on_approval="deny")
    assert (denied["error_type"], denied["tier"]) == ("permission_denied", "elevated")
    assert denied["reason"]
    retries = {
        name: callboard.ErrorType(name).retry
        for name in ("validation_error", "execution_error", "permission_denied", "timeout")
    }
    assert retries == {
        "validation_error": "arguments",
        "execution_error": "no",
        "permission_denied": "no",
        "timeout": "backoff",
    }
    assert ToolFailure("timeout", "late").error_type.retry == "backoff"


WRONG = ("fail_as", {"how": 1})


@ADR.says("Model retries with corrected args.")
async def test_a_corrected_call_runs(tmp_path: Path) -> None:
    ran: list[str] = []
    tool = tool_of("system", ran)
    steps: list[ScriptStep] = [
        reply(calls=[WRONG]),
        reply(calls=[WRONG]),
        reply(calls=[("fail_as", {"how": "now"}), ("system_tool", {})]),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, tools=[fail_as, tool]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    types = [read_result(result).get("error_type") for result in played.results]
    assert sorted(types, key=str) == [
        None, "execution_error", "validation_error", "validation_error",
    ]  # fmt: skip
    assert ran == ["system"]
    assert not [event for event in played.events if isinstance(event, ToolGivenUp)]


@ADR.says(
    "Max 2 retries (3 total attempts). After that, surface the error to the parent session.",
    "Retry loop must be implemented in the dispatcher (not in individual tools).",
)
async def test_three_wrong_answers_are_told_to_the_parent(tmp_path: Path) -> None:
    steps: list[ScriptStep] = [
        reply(calls=[delegated("branch")]),
        *[reply(calls=[WRONG, WRONG]) for _ in range(3)],
        reply("I stop."),
        reply("Done."),
    ]
    settings = Settings(limits=Limits(model_retries=0))
    async with open_local_stage(tmp_path, steps, tools=[fail_as], settings=settings) as (
        runtime,
        model,
    ):
        main, _ = await play_in(runtime, "Go.")
        record = [stored.event for stored in await runtime.store.events(main.session_id)]
    [given_up] = [event for event in record if isinstance(event, ToolGivenUp)]
    assert (given_up.name, given_up.attempts) == ("fail_as", 3)
    assert given_up.child_id
    results = [item.content for item in model.requests[4].rounds[-1].items[-2:]]  # type: ignore[union-attr]
    assert all("Do not call fail_as again" in json.loads(result)["message"] for result in results)


def test_every_line_is_asserted() -> None:
    assert ADR.unsaid == []
