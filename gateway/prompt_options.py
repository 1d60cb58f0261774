"""What a client gives a turn in the place of its agent's own: checked, and only within its role."""

from __future__ import annotations

from ..embedded import directory_of, host_of
from ..providers.provider_table import check_provider
from ..runtime.attachment_rules import checked_attachments
from ..runtime.budget import checked_budget
from ..runtime.definitions import InputMode
from ..runtime.errors import NotFoundError, PermissionRefused, ValidationError
from ..runtime.messages import InputTicket, SubmitInput
from ..runtime.store import SessionRow
from ..runtime.turn_options import TurnOptions
from ..runtime.wire.roles import Role
from ..runtime.wire.sessions import Prompt
from ..turn_handle import checked_text
from .caller import Caller


async def submit_with(caller: Caller, row: SessionRow, params: Prompt) -> InputTicket:
    """Stores an input with options for its turn, as `Session.submit` does without.

    Raises:
        ValidationError: It steers, and has no turn of its own.
        NotFoundError: There is no such provider.
        PermissionRefused: More would run without asking, and the caller may not decide that.
    """
    options = params.options
    assert options is not None
    if params.mode is InputMode.STEER:
        raise ValidationError(
            "an input that steers a turn has no options: it becomes part of that turn. Leave them "
            "out, or queue the input.",
            field="options",
        )
    _check_models(caller, options)
    return await directory_of(caller.runtime).ask(
        SubmitInput(
            session_id=params.session_id,
            text=checked_text(params.content),
            attachments=checked_attachments(params.attachments),
            budget=checked_budget(params.budget),
            mode=params.mode,
            request=caller.request,
            options=options,
            may_widen=_widens(caller, row, options),
        )
    )


def _check_models(caller: Caller, options: TurnOptions) -> None:
    """Now, and not when its turn comes: then nobody would be there to hear it."""
    host = host_of(caller.runtime)
    if options.model is not None:
        host.plan.models.target(options.model)
    for name in options.fallbacks or ():
        provider, _, model = name.partition("/")
        if not provider or not model:
            raise ValidationError(
                f"{name!r} is no PROVIDER/MODEL, as in openai/gpt-5-mini", field="fallbacks"
            )
        check_provider(host.settings, name)


def _widens(caller: Caller, row: SessionRow, options: TurnOptions) -> bool:
    """Whether more runs without asking, as somebody wants who may decide it."""
    agent = host_of(caller.runtime).agents.get(row.agent)
    if agent is None:
        raise NotFoundError(f"{row.session_id} has the agent {row.agent!r}, which there is not")
    if not options.widens(agent):
        return False
    if caller.credential.role is not Role.ADMIN or caller.is_limited:
        raise PermissionRefused(
            f"the policy {options.policy} lets more run without asking than the agent "
            f"{agent.name!r}, which has {agent.policy}: only an administrator gives a turn that"
        )
    return True
