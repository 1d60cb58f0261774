"""One tool call from the model's text to its one result; whatever happens, there is a result."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import trio

from ...config.settings import Limits
from ...runtime.definitions import (
    Agent,
    Artifact,
    CallStatus,
    Capability,
    Effect,
    ErrorType,
    Resource,
    SessionKind,
    Tier,
    ToolDefinition,
    ToolFailure,
    ToolResult,
)
from ...runtime.history import Call
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import ApprovalAnswer, CallPlace, Decision, PermissionQuestion
from ...runtime.processes import CommandBinding
from ...runtime.redaction import redact, redacting_logger
from ...tools.registry import ToolRegistry, is_available
from ...tools.tool import Arguments, Tool, ToolContext, keys_of
from .truncation import cut_failure, cut_output

NOTHING = CommandBinding("")
"""Of a call that runs no programs."""


def binding_of(arguments: str, context: ToolContext) -> CommandBinding:
    """How strong the sandbox is, what variables it gives, and which programs the call names.

    Whatever stands in the arguments may be a command: what a tool makes of them is not known here.
    """
    if context.processes is None:
        return NOTHING
    given = msgspec.json.decode(arguments)
    cwd = given.get("cwd") if isinstance(given, dict) else None
    return context.processes.bind(tuple(_commands(given)), cwd if isinstance(cwd, str) else ".")


def _commands(value: Any) -> Iterator[str | tuple[str, ...]]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield tuple(value)
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _commands(inner)


logger = redacting_logger(__name__)


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a call ended.

    Attributes:
        content: The JSON text for the model.
        full_output: The whole output as JSON text, when `content` had to cut it.
        failure: What a failure told the model, as JSON values; `None` for a success.
        attempts_left: How often the model may still try, when its arguments were wrong.
    """

    status: CallStatus
    content: str
    display: str = ""
    artifacts: tuple[Artifact, ...] = ()
    full_output: str | None = None
    failure: dict[str, Any] | None = None
    attempts_left: int | None = None


class ReadyCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool is found and whose arguments are valid; `resources` are its keys."""

    call: Call
    tool: Tool
    arguments: Arguments
    context: ToolContext
    tier: Tier
    effect: Effect
    resources: tuple[Resource, ...]
    needs: tuple[Capability, ...]

    @property
    def definition(self) -> ToolDefinition:
        """The tool's, with all that this call needs: what policy and marks look at."""
        its = self.tool.definition
        return its if self.needs == its.needs else msgspec.structs.replace(its, needs=self.needs)

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def question(self) -> PermissionQuestion:
        """What a permission depends on."""
        return PermissionQuestion(
            call_id=self.call.call_id,
            name=self.call.name,
            tier=self.tier,
            arguments=self.arguments.canonical,
            approval_reason=self.context.approval_reason,
            definition=self.definition,
        )

    @property
    def is_changed(self) -> bool:
        """Whether these are other arguments than the model asked for."""
        try:
            asked = self.tool.decode(self.call.arguments)
        except ToolFailure:
            return True
        return asked.canonical != self.arguments.canonical

    def digest(self, place: CallPlace, policy_version: str) -> str:
        """What an approval binds to: tool, final arguments, policy, session and folder.

        Of a call that runs programs also the sandbox, and the programs of the workspace that it names.
        """
        bound = [
            self.tool.definition.digest,
            self.arguments.canonical,
            self.tier,
            policy_version,
            place.session_id,
            place.session_kind,
            place.agent.name,
            place.workspace,
            binding_of(self.arguments.canonical, self.context).digest,
        ]
        return hashlib.sha256(msgspec.json.encode(bound)).hexdigest()


def find_tool(registry: ToolRegistry, name: str, agent: Agent, kind: SessionKind) -> Tool:
    """The tool that a call means; raises `ToolFailure` when this session may not use it."""
    tool = registry.get(name)
    if tool is None:
        known = ", ".join(definition.name for definition in registry.definitions(agent.tools, kind))
        raise ToolFailure(
            ErrorType.TOOL_NOT_FOUND, f"There is no tool {name[:100]!r}. There are: {known}."
        )
    is_own = agent.tools is None or name in agent.tools
    if is_own and is_available(tool.definition, kind) and (why := registry.withheld(name)):
        raise ToolFailure(ErrorType.SANDBOX_UNAVAILABLE, f"{name}: {why}", reason=why)
    if tool.definition not in registry.definitions(agent.tools, kind):
        raise ToolFailure(
            ErrorType.TOOL_NOT_AVAILABLE,
            f"{name} is not available to agent {agent.name!r} in a {kind} session.",
        )
    return tool


def make_ready(
    tool: Tool,
    call: Call,
    arguments: str,
    context_of: Callable[[tuple[Capability, ...]], ToolContext],
) -> ReadyCall:
    """Validates the arguments and asks the tool about them; `context_of` opens what a call needs.

    Raises:
        ToolFailure: They are wrong, or a function of the tool that judges them crashed.
    """
    try:
        decoded = tool.decode(arguments)
        needs = tool.needs(decoded)
        context = context_of(needs)
        tool.check_handles(context, needs)
        context.approval_reason = tool.approval_reason(decoded, context)
        return ReadyCall(
            call=call,
            tool=tool,
            arguments=decoded,
            context=context,
            tier=max(tool.definition.tier, tool.tier(decoded), key=lambda tier: tier.rank),
            effect=tool.effect(decoded),
            resources=keys_of(tool.resources(decoded)),
            needs=needs,
        )
    except ToolFailure:
        raise
    except BaseException as crash:
        raise_stop(crash)
        logger.warning("the tool %s crashed before it ran", call.name, exc_info=True)
        raise ToolFailure(  # noqa: ASYNC104
            ErrorType.EXECUTION_ERROR, f"{call.name} failed before it ran: {_one_line(crash)}"
        ) from crash


async def execute(ready: ReadyCall, limits: Limits) -> Outcome:
    """Runs the tool under its deadline; cancelled when the batch is.

    Whatever a tool raises is a crash of this call alone: one that calls `sys.exit`, or has a
    cancelled asyncio task inside, must not end the runtime.
    """
    try:
        seconds = ready.tool.timeout_seconds(ready.arguments)
        if not ready.tool.waits:
            seconds = min(seconds, limits.max_tool_seconds)
        with trio.move_on_after(seconds) as deadline:
            result = await ready.tool.execute(ready.arguments, ready.context)
            return success(result, ready.call, limits.max_result_bytes)
    except ToolFailure as failure:
        return _bounded(_told(failure, ready.call), ready.call, limits.max_result_bytes)
    except BaseException as crash:  # noqa: ASYNC103  what stops this task is raised
        raise_stop(crash)
        return _crashed(ready.call, crash)  # noqa: ASYNC104
    assert deadline.cancelled_caught
    return failure_outcome(
        ErrorType.TIMEOUT,
        f"{ready.call.name} was stopped after {seconds:g} s",
        status=CallStatus.TIMEOUT,
        elapsed_seconds=seconds,
    )


def success(result: ToolResult, call: Call, max_bytes: int) -> Outcome:
    """The outcome of a tool that returned; an oversized output is cut and kept as an artifact."""
    # A field of another type would be stored and then make the session unreadable.
    result = msgspec.convert(msgspec.structs.asdict(result), ToolResult)
    output = msgspec.json.encode(result.output)
    if len(output) <= max_bytes:
        return Outcome(
            status=CallStatus.SUCCESS,
            content='{"status":"success","result":' + output.decode() + "}",
            display=result.display,
            artifacts=result.artifacts,
        )
    cut = cut_output(result, output, call.call_id, max_bytes)
    kept = Artifact(kind="output", id=call.call_id, size_bytes=len(output))
    return Outcome(
        status=CallStatus.SUCCESS,
        content=msgspec.json.encode(cut).decode(),
        display=result.display,
        artifacts=(*result.artifacts, kept),
        full_output=output.decode(),
    )


def _bounded(outcome: Outcome, call: Call, max_bytes: int) -> Outcome:
    """The outcome of a failure, its long texts shortened; the whole is kept as a result's is."""
    size = len(outcome.content.encode())
    short = None if size <= max_bytes else cut_failure(outcome.content, call.call_id, max_bytes)
    if short is None:
        return outcome
    return msgspec.structs.replace(
        outcome,
        content=content_of(short),
        failure=short,
        artifacts=(Artifact(kind="output", id=call.call_id, size_bytes=size),),
        full_output=outcome.content,
    )


def failed(failure: ToolFailure) -> Outcome:
    """The outcome of a failure that the tool, or the way to it, expected."""
    match failure.error_type:
        case ErrorType.PERMISSION_DENIED | ErrorType.APPROVAL_EXPIRED:
            status = CallStatus.DENIED
        case ErrorType.TIMEOUT:
            status = CallStatus.TIMEOUT
        case _:
            status = CallStatus.ERROR
    return _failure(failure.error_type, str(failure), status, failure.details)


def denied(decision: Decision, tier: Tier) -> Outcome:
    """The outcome of a call that policy or a person refused."""
    return failed(denial(decision.reason, tier))


def denial(
    reason: str, tier: Tier, error_type: ErrorType = ErrorType.PERMISSION_DENIED
) -> ToolFailure:
    """Return the failure that the model gets for a call that was not allowed."""
    return ToolFailure(error_type, f"Not run: {reason}", tier=tier, reason=reason)


def denial_by_answer(answer: ApprovalAnswer, tier: Tier) -> ToolFailure:
    """Return the failure for a call that a person denied, or about which nobody answered."""
    if answer.decision == "expired":
        reason = answer.reason or "nobody answered in time"
        return denial(reason, tier, ErrorType.APPROVAL_EXPIRED)
    said = f": {answer.reason}" if answer.reason else ""
    return denial(f"denied by {answer.answered_by}{said}", tier)


def with_arguments(outcome: Outcome, arguments: str, max_bytes: int) -> Outcome:
    """The outcome, told with the arguments that a person put in the place of the model's."""
    note = "A person changed the arguments; the call ran with these."
    if len(arguments) > max_bytes:
        note = "A person changed the arguments; the call ran with others, too long to show here."
        arguments = "null"
    added = f',"arguments":{arguments},"note":{_json(note)}}}'
    return msgspec.structs.replace(outcome, content=outcome.content[:-1] + added)


def failure_outcome(
    error_type: ErrorType, message: str, *, status: CallStatus = CallStatus.ERROR, **details: Any
) -> Outcome:
    """An outcome that tells the model what failed."""
    return _failure(error_type, message, status, details)


def _failure(
    error_type: ErrorType, message: str, status: CallStatus, details: dict[str, Any]
) -> Outcome:
    # A mapping and no keywords: a tool may name a detail `status`, as of an HTTP answer.
    failure = {**details, "status": "error", "error_type": error_type, "message": message}
    return Outcome(
        status=status,
        content=content_of(failure),
        display=message.splitlines()[0][:200] if message else str(error_type),
        failure=failure,
    )


def _told(failure: ToolFailure, call: Call) -> Outcome:
    try:
        return failed(failure)
    except Exception as crash:  # the application's own class of failure
        return _crashed(call, crash)


def _crashed(call: Call, crash: BaseException) -> Outcome:
    while isinstance(crash, BaseExceptionGroup) and len(crash.exceptions) == 1:
        crash = crash.exceptions[0]  # a nursery wraps the only one too
    if isinstance(crash, ToolFailure):
        return failed(crash)
    logger.warning("the tool %s crashed", call.name, exc_info=crash)
    return failure_outcome(ErrorType.EXECUTION_ERROR, f"{call.name} failed: {_one_line(crash)}")


def content_of(failure: dict[str, Any]) -> str:
    """The JSON text of a failure; details that have none, even as `repr`, are left out."""
    try:
        return _json(failure)
    except Exception:  # the application's: a `repr` that raises, a mapping that holds itself
        logger.warning("details of a failure have no JSON form", exc_info=True)
    return _json({name: value for name, value in failure.items() if _has_form(value)})


def _has_form(value: object) -> bool:
    try:
        _json(value)
    except Exception:  # as above
        return False
    return True


def _json(value: object) -> str:
    """JSON of whatever a tool's failure holds: what has no JSON form is shown as its `repr`."""
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except UnicodeEncodeError:  # a lone surrogate, as in a file name that is no UTF-8
        plain = json.dumps(_finite(msgspec.to_builtins(value, enc_hook=repr)), ensure_ascii=False)
        return plain.encode(errors="replace").decode()


def _finite(value: Any) -> Any:
    """JSON knows no infinite number, and no NaN; msgspec writes null in their place."""
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_line(crash: BaseException) -> str:
    try:
        text = redact(" ".join(str(crash).split()))[:500]
    except Exception:  # the application's exception: its own `__str__` may crash too
        text = ""
    return f"{type(crash).__name__}: {text}" if text else type(crash).__name__


CANCELLED_ALONE = failure_outcome(
    ErrorType.CANCELLED,
    "A person cancelled this call, and nothing else of the turn. What it did until then is done.",
    status=CallStatus.CANCELLED,
)
"""Of a running call that `Activity.cancel` ends."""
