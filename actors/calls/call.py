"""One tool call, from the text that a model or a person wrote to a call that can be decided about.

`CallPreparation.ready` is the only way to a `ReadyCall`, so whatever is checked there is checked for
every call: the tool exists and the session may use it, the arguments are valid, and the context
holds the handles that this tool needs and this kind of session has, and no others.

What a person allows is a digest over all of that. A call that a person was asked about is prepared
again, from the text that was allowed, right before it runs. So it does not matter what the tool's
own code did to objects meanwhile: what runs is what the digest says, and the store refuses the start
of any other.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from ...config.settings import Limits
from ...runtime.changes.version_log import VersionStore
from ...runtime.definitions import (
    Agent,
    Capability,
    Effect,
    ErrorType,
    Resource,
    SessionKind,
    Tier,
    ToolDefinition,
    ToolFailure,
)
from ...runtime.event_types.calls import CalledServer
from ...runtime.events import ChildCall
from ...runtime.handles import ReadableFiles, WritableFiles
from ...runtime.history import Call
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import CallPlace, PermissionQuestion
from ...runtime.processes import CommandBinding
from ...runtime.redaction import mask, redacting_logger
from ...runtime.taint.marked_files import MarkedFiles
from ...runtime.taint.tracked_files import FileWatch, TrackedReader, TrackedWriter
from ...runtime.taint.tracked_network import TrackedNetwork
from ...runtime.taint.tracked_processes import TrackedProcesses
from ...runtime.text import without_surrogates
from ...runtime.turns.activity import CallActivity
from ...tools.files.preview import bounded
from ...tools.registry import HANDLES, ToolRegistry, is_available
from ...tools.tool import Arguments, Tool, ToolContext, keys_of
from ...tools.workspace.workspace import Workspace
from ..handles.open_handles import OpenHandles
from .outcome import (
    CANCELLED_ALONE,
    CallOutcome,
    bounded_failure,
    crash_outcome,
    crash_text,
    success,
    timed_out,
    told_to_stop,
    with_note,
)

if TYPE_CHECKING:
    from ...tools.client_tool import ClientCalls

logger = redacting_logger(__name__)

PREVIEW_SECONDS = 5.0
"""Then the question is asked without a preview: a person can wait for the disk, not for a bug."""


class ReadyCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool is found and whose arguments are valid; `resources` are its lock keys."""

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
        """The tool's definition with all that this call needs, as policy and marks judge it."""
        its = self.tool.definition
        return its if self.needs == its.needs else msgspec.structs.replace(its, needs=self.needs)

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def question(self) -> PermissionQuestion:
        """The call as far as a permission depends on it."""
        return PermissionQuestion(
            call_id=self.call.call_id,
            name=self.call.name,
            tier=self.tier,
            arguments=self.arguments.canonical,
            approval_reason=self.context.approval_reason,
            definition=self.definition,
            programs=self.programs if self.context.processes is not None else None,
        )

    @property
    def is_changed(self) -> bool:
        """Whether the arguments differ from those that the model wrote."""
        try:
            asked = self.tool.decode(self.call.arguments)
        except ToolFailure:
            return True
        return asked.canonical != self.arguments.canonical

    @property
    def _binding(self) -> CommandBinding:
        """The strength of the sandbox, its variables, and the programs that the call names.

        Any text in the arguments may be a command: this module does not know what the tool does
        with them.
        """
        if self.context.processes is None:
            return CommandBinding("")
        commands, cwd = self._commands
        return self.context.processes.bind(commands, cwd)

    @property
    def _commands(self) -> tuple[tuple[str | tuple[str, ...], ...], str]:
        """What may be commands, and where they run."""
        given = msgspec.json.decode(self.arguments.canonical)
        cwd = given.get("cwd") if isinstance(given, dict) else None
        return tuple(commands_in(given)), cwd if isinstance(cwd, str) else "."

    def programs(self) -> str:
        """Return what a remembered answer binds to beside the arguments; empty when that can't be told.

        Of a command that does only what its words say, that is nothing in the workspace. A tool that runs
        whatever is there was allowed to do just that.
        """
        from ...config.policy.commands import (
            RUNS_THE_WORKSPACE,
            is_plain,
        )  # here: few calls run any

        assert self.context.processes is not None
        commands, cwd = self._commands
        bound: list[str | tuple[str, ...]] = [
            each[:1] if not isinstance(each, str) and is_plain(each, cwd) else each
            for each in commands
            if self.name not in RUNS_THE_WORKSPACE
        ]
        return self.context.processes.bind(bound, cwd, is_remembered=True).digest

    def digest(self, place: CallPlace, policy_version: str) -> str:
        """Return what an approval binds to: tool, final arguments, policy, session and folder.

        For a call that runs programs, also the sandbox and the workspace's programs that it names.
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
            self._binding.digest,
        ]
        return hashlib.sha256(msgspec.json.encode(bound)).hexdigest()

    async def preview(self) -> str:
        """Return what a person sees of the call beside its arguments, or why there is nothing.

        It is only shown: the tool's function gets arguments and a context of its own, and whatever
        it raises or makes of them allows, refuses and changes nothing.
        """
        try:
            with trio.move_on_after(PREVIEW_SECONDS):
                arguments = self.tool.decode(self.arguments.canonical)
                text = await self.tool.preview(arguments, copy.copy(self.context)) or ""
                programs = self._binding.shown
                return _shown(f"{text}\n\n{programs}".strip() if programs else text)
        except ToolFailure as failure:
            # The call is going to fail by itself: that is worth knowing before it is allowed.
            return _shown(f"(no preview: {failure})")
        except BaseException as crash:  # noqa: ASYNC103  what stops this task is raised
            raise_stop(crash)
            logger.warning("the preview of %s crashed", self.name, exc_info=True)
            return f"(no preview: the tool's own function for it failed: {type(crash).__name__})"  # noqa: ASYNC104
        return f"(no preview: it took longer than {PREVIEW_SECONDS:g} s)"


class CallPreparation:
    """Makes ready calls, whoever wrote their arguments: a model, or a person who changed them.

    Args:
        registry: The tools.
        handles: Opens what tools act through.
        limits: How large arguments may be.
        marked_files: The files that tainted sessions wrote; without it, calls mark and find none.
        versions: Keeps earlier versions of changed files.
        app: What the program gives its tools.
        client_calls: Returns where calls of clients' tools wait.

    Attributes:
        limits: The same.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        handles: OpenHandles,
        limits: Limits,
        marked_files: MarkedFiles | None = None,
        versions: VersionStore | None = None,
        app: object = None,
        client_calls: Callable[[], ClientCalls] | None = None,
    ) -> None:
        self._registry = registry
        self._app = app
        self._client_calls = client_calls
        self._marked_files = MarkedFiles() if marked_files is None else marked_files
        self._versions = VersionStore(None) if versions is None else versions
        self._handles = handles
        self.limits = limits

    def definition(self, session_id: str, name: str) -> ToolDefinition | None:
        """Return the definition of a tool of a session, or `None` when there is none of that name."""
        return self._registry.of(session_id).definition(name)

    def definition_at(self, place: CallPlace, name: str) -> ToolDefinition | None:
        """Return the definition of the tool that a call of this name means there, or `None`."""
        its = (each for each in place.client_tools if each.name == name)
        return next(its, None) or self.definition(place.session_id, name)

    async def wait_tested(self, calls: Iterable[Call]) -> None:
        """Wait until it is known whether programs may be started, if one of these calls runs one."""
        for name in {call.name for call in calls}:
            definition = self._registry.definition(name)
            if definition is not None and Capability.PROCESSES in definition.needs:
                await self._handles.wait_tested()
                return

    def ready(
        self,
        place: CallPlace,
        call: Call,
        arguments: str,
        on_progress: Callable[[str], None] | None = None,
        show: Callable[[ChildCall], None] | None = None,
    ) -> ReadyCall:
        """Look the tool up, validate the arguments, open the handles, and ask the tool about them.

        `on_progress` takes its output, `show` the calls of sessions that it starts.

        Raises:
            ToolFailure: The call can't run, for a reason that the model should read; or a function
                of the tool that judges its arguments crashed.
        """
        tool = self._client_tool(place, call.name) if place.client_tools else None
        if tool is None:
            shared = self._registry  # as its of(), which would be one call more for each
            registry = shared.of_sessions.get(place.session_id, shared)
            tool = find_tool(registry, call.name, place.agent, place.session_kind)
        most = self.limits.max_arguments_bytes
        if len(arguments) > most or len(arguments.encode(errors="replace")) > most:
            text = f"{call.name}: the arguments are larger than {most} bytes; send less at once."
            raise ToolFailure(ErrorType.VALIDATION_ERROR, text)
        try:
            decoded = tool.decode(arguments)
            needs = tool.needs(decoded)
            context = self._context(place, call, needs, on_progress, show)
            if tool.may_ask:
                context.channel = self._handles.channel(place, call)
            tool.check_handles(context, needs)
            context.approval_reason = tool.approval_reason(decoded, context)
            return ReadyCall(
                call=call,
                tool=tool,
                arguments=decoded,
                context=context,
                tier=highest(tool.definition.tier, tool.tier(decoded)),
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
                ErrorType.EXECUTION_ERROR, f"{call.name} failed before it ran: {crash_text(crash)}"
            ) from crash

    def _client_tool(self, place: CallPlace, name: str) -> Tool | None:
        """Return a tool that the program which sent the input runs itself."""
        for definition in place.client_tools:
            if definition.name == name and self._client_calls is not None:
                return self._client_calls().tool(definition)
        return None

    def _context(
        self,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        on_progress: Callable[[str], None] | None,
        show: Callable[[ChildCall], None] | None,
    ) -> ToolContext:
        """Open the handles that the tool needs and the kind of session allows, and no others."""
        handles = self._handles
        context = ToolContext(
            session_id=place.session_id,
            turn_id=place.turn_id,
            call_id=call.call_id,
            session_kind=place.session_kind,
            agent=place.agent,
            app=self._app,
            plan=handles.plan(place, call),
            skills=handles.skills(place.workspace, place.agent.skills),
            artifacts=handles.artifacts(place.session_id),
            max_result_bytes=self.limits.max_result_bytes,
            on_progress=on_progress,
            turn_trace=place.trace,
        )
        if needs:  # most tools need nothing
            self._open_needed(context, place, call, needs, show)
        return context

    def _open_needed(
        self,
        context: ToolContext,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        show: Callable[[ChildCall], None] | None,
    ) -> None:
        handles = self._handles
        has = HANDLES[place.session_kind].intersection(needs)
        watch = FileWatch(self._marked_files, place.workspace)
        context.files_read, context.files_write = self._files(place, call, needs, has, watch)
        if context.files_read is not None:
            context.workspace = Path(place.workspace)
        network = None
        if Capability.NETWORK in has and handles.network is not None:
            told = None if place.trace is None else partial(place.trace.headers, call.call_id)
            context.network = network = TrackedNetwork(handles.network, handles.connect, told)
            context.search = handles.search(network)
        if Capability.PROCESSES in has:
            processes = handles.processes(place, call, network)
            if processes is not None:
                context.processes = TrackedProcesses(processes, watch, handles.keeper(place, call))
                context.workshop = handles.workshop
        if Capability.CHANNEL in has:
            context.channel = handles.channel(place, call)
        if Capability.SESSIONS in has:
            context.sessions = handles.sessions(place, call, show)
        if Capability.MEMORY_READ in has:
            context.memory_read = handles.memory_read(place)
        if Capability.MEMORY_WRITE in has:
            context.memory_write = handles.memory_write(place, call, needs, context.memory_read)

    def _files(
        self,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        has: frozenset[Capability],
        watch: FileWatch,
    ) -> tuple[ReadableFiles | None, WritableFiles | None]:
        """Open the files of a call, to read and to write, under one watch: the call may copy."""
        if Capability.FILES_READ not in needs and Capability.FILES_WRITE not in needs:
            return None, None
        reader = TrackedReader(self._handles.files_read(place.workspace), watch)
        if Capability.FILES_WRITE not in has:
            return reader, None
        files = self._handles.files_write(place.workspace)
        if isinstance(files, Workspace):
            # Imported here since starting callboard does not need it.
            from ...tools.undo.recorded_files import RecordedFiles

            log = self._versions.log(place.session_id)
            files = RecordedFiles(files, log, place.session_id, call.call_id, watch.is_marked)
        return reader, TrackedWriter(files, watch)


async def execute(ready: ReadyCall, limits: Limits, running: CallActivity) -> CallOutcome:
    """Run the tool under its deadline, in the scope of `running`; cancelled when the batch is.

    Whatever a tool raises is a failure of this call alone: a tool that calls `sys.exit`, or has
    a cancelled asyncio task inside, must not end the runtime.
    """
    most = limits.max_result_bytes
    try:
        seconds = ready.tool.timeout_seconds(ready.arguments)
        if not ready.tool.waits:
            seconds = min(seconds, limits.max_tool_seconds)
        scope = running.open_scope(seconds)
        if ready.tool.may_ask:
            ready.context.run_in(scope)
        with scope:
            result = await ready.tool.execute(ready.arguments, ready.context)
            return success(result, ready.call, most)
    except ToolFailure as failure:
        return bounded_failure(failure, ready.call, most)
    except BaseException as crash:  # noqa: ASYNC103  what stops this task is raised
        raise_stop(crash)
        return crash_outcome(ready.call, crash)  # noqa: ASYNC104
    assert scope.cancelled_caught
    outcome = CANCELLED_ALONE
    if not running.is_cancelled:
        outcome = timed_out(ready.name, seconds, ready.effect)
    server = told(ready)
    return outcome if server is None else with_note(outcome, told_to_stop(server))


def told(ready: ReadyCall) -> CalledServer | None:
    """Return the server that is told to stop when the call ends before its answer, if that matters."""
    return None if ready.effect is Effect.READ else ready.context.server


def find_tool(registry: ToolRegistry, name: str, agent: Agent, kind: SessionKind) -> Tool:
    """Return the tool of a call; raise `ToolFailure` when this session may not use it."""
    if registry.is_offered(name, agent.tools, kind) and (tool := registry.get(name)) is not None:
        return tool
    definition = registry.definition(name)
    if definition is None:
        known = ", ".join(each.name for each in registry.definitions(agent.tools, kind))
        raise ToolFailure(
            ErrorType.TOOL_NOT_FOUND, f"There is no tool {name[:100]!r}. There are: {known}."
        )
    is_own = agent.tools is None or name in agent.tools
    if is_own and is_available(definition, kind) and (why := registry.withheld(name)):
        is_program = Capability.PROCESSES in definition.needs
        failure = ErrorType.SANDBOX_UNAVAILABLE if is_program else ErrorType.TOOL_NOT_AVAILABLE
        raise ToolFailure(failure, f"{name}: {why}", reason=why)
    raise ToolFailure(
        ErrorType.TOOL_NOT_AVAILABLE,
        f"{name} is not available to agent {agent.name!r} in a {kind} session.",
    )


def highest(tier: Tier, other: Tier) -> Tier:
    """Return the more dangerous of two tiers."""
    return tier if tier is other or tier.rank >= other.rank else other


def commands_in(value: Any) -> Iterator[str | tuple[str, ...]]:
    """Yield each text and each list of words in arguments, any of which may be a command."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield tuple(value)
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from commands_in(inner)


def _shown(text: str) -> str:
    """Return a preview as it may be stored and shown."""
    return bounded(without_surrogates(mask(text)))
