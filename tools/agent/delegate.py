"""delegate: a task for another session."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec

from ...runtime.budget import Budget
from ...runtime.definitions import Artifact, Capability, SessionKind, Tier, ToolResult
from ...runtime.handles import Delegation
from ..failures import failed
from ..tool import FunctionTool, ToolContext

MAX_TASK_CHARS = 100_000
"""A longer task belongs in a file that the task names."""

MAX_SECONDS = 7 * 24 * 3600.0
"""A week, the bound of all deadlines: a task ends by its budget, its turn's, or a cancel."""

FINE = frozenset({"answered", "running"})
"""The outcomes that don't count as failures."""


class DelegateOutput(TypedDict):
    """What delegate returns; `answer` unless it did not wait."""

    session_id: str
    outcome: Literal["answered", "running"]
    answer: NotRequired[str]


async def _delegate(
    context: ToolContext,
    kind: Literal["branch", "worker"],
    task: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TASK_CHARS)],
    tools: list[str] | None = None,
    budget: Budget | None = None,
    wait: bool = True,
) -> ToolResult:
    """Gives a task to a session of its own, in the same workspace, and gives its final answer.

    Args:
        kind: A branch may do what you may; a worker only looks and reports.
        task: All that the other session needs to know; it sees nothing of this conversation.
        tools: Names of the tools it may use, of yours; all that its kind may use by default.
        budget: What it may use at most: tokens, cost_usd, seconds, tool_calls, model_calls.
        wait: False goes on at once, in a main session only; the answer then comes as an input of
            its own. Several calls in one answer run side by side without it.
    """
    assert context.sessions is not None  # or `needs` would have refused the call
    child = await context.sessions.delegate(
        Delegation(
            kind=SessionKind(kind),
            task=task,
            tools=None if tools is None else tuple(tools),
            budget=budget,
            wait=wait,
        ),
        context.progress,
    )
    if child.outcome not in FINE:
        raise failed(
            f"The {kind} {child.session_id} did not finish its task: {child.outcome}. {child.message}",
            session_id=child.session_id,
            outcome=child.outcome,
            answer=child.answer,
        )
    output = {"session_id": child.session_id, "outcome": child.outcome, "answer": child.answer}
    if child.outcome == "running":
        del output["answer"]
    return ToolResult(
        output=output,
        display=f"{kind} {child.session_id}: {child.outcome}",
        artifacts=(Artifact(kind="session", id=child.session_id, size_bytes=0),),
    )


delegate = FunctionTool(
    _delegate,
    name="delegate",
    tier=Tier.WORKSPACE,
    needs=[Capability.SESSIONS],
    timeout_seconds=MAX_SECONDS,
    output=DelegateOutput,
    waits=True,
)
