"""What a client gives a turn beyond an input: options in the place of its agent's own, and its word
where more runs than the agent has it. Checked, and only within its role."""

from __future__ import annotations

from ...embedding.runtime import directory_of, host_of
from ...embedding.session import checked_mode
from ...embedding.turn import checked_text
from ...providers.catalog.table import check_provider
from ...runtime.budget import checked_budget
from ...runtime.definitions import InputMode
from ...runtime.errors import NotFoundError, PermissionRefused, ValidationError
from ...runtime.history import checked_attachments
from ...runtime.messages import InputTicket, SubmitInput
from ...runtime.store.rows import SessionRow
from ...runtime.turn_options import TurnOptions, check_fallbacks
from ...runtime.wire.fields import Role
from ...runtime.wire.sessions import Prompt
from ..connection.caller import Caller


async def submit_with(caller: Caller, row: SessionRow, params: Prompt) -> InputTicket:
    """Stores an input with options for its turn, or one that steers a turn, as `Session.submit`.

    Raises:
        ValidationError: It steers, and has no turn of its own to have options or a budget.
        NotFoundError: There is no such provider.
        PermissionRefused: More would run without asking, and the caller may not decide that.
    """
    options = params.options
    if options is not None and params.mode is InputMode.STEER:
        raise ValidationError(
            "an input that steers a turn has no options: it becomes part of that turn. Leave them "
            "out, or queue the input.",
            field="options",
        )
    if options is None:
        widens = row.agent if _may_widen(caller) else ""
    else:
        _check_models(caller, options)
        widens = _widens(caller, row, options)
    return await directory_of(caller.runtime).ask(
        SubmitInput(
            session_id=params.session_id,
            text=checked_text(params.content),
            attachments=checked_attachments(params.attachments),
            budget=checked_budget(params.budget),
            mode=checked_mode(params.mode, params.budget),
            request=caller.request,
            options=options,
            widens=widens,
        )
    )


def _check_models(caller: Caller, options: TurnOptions) -> None:
    """Now, and not when its turn comes: then nobody would be there to hear it."""
    host = host_of(caller.runtime)
    if options.model is not None:
        host.plan.models.target(options.model)
    check_fallbacks(options.fallbacks or ())
    for name in options.fallbacks or ():
        check_provider(host.settings, name)


def _widens(caller: Caller, row: SessionRow, options: TurnOptions) -> str:
    """The agent than which more runs without asking, as somebody wants who may decide it, or none."""
    agent = host_of(caller.runtime).agents.get(row.agent)
    if agent is None:
        raise NotFoundError(f"{row.session_id} has the agent {row.agent!r}, which there is not")
    if not options.widens(agent):
        return ""
    if not _may_widen(caller):
        raise PermissionRefused(
            f"the policy {options.policy} lets more run without asking than the agent "
            f"{agent.name!r}, which has {agent.policy}: only an administrator gives a turn that"
        )
    return agent.name


def _may_widen(caller: Caller) -> bool:
    return caller.credential.role is Role.ADMIN and not caller.is_limited
