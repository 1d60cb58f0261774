"""The choice of a call to let its program reach hosts: who may choose it, and what follows."""

from __future__ import annotations

from typing import Any

from ..runtime.definitions import Capability, ErrorType, Tier, ToolFailure
from .context import ToolContext

PREVIEW = "(may reach hosts on the internet)"


def tier_with_network(arguments: Any) -> Tier:
    """A program that reaches hosts is the system's matter, in whatever language it is."""
    return Tier.SYSTEM if arguments.network else Tier.READ_ONLY


def needs_with_network(arguments: Any) -> tuple[Capability, ...]:
    """What it needs besides."""
    return (Capability.NETWORK,) if arguments.network else ()


def asks_with_network(arguments: Any, context: ToolContext) -> str | None:
    """Why a person is asked; raises `ToolFailure` when the operator lets no program reach hosts."""
    if not arguments.network:
        return None
    if context.processes is not None and not context.processes.offers_network:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            "Not run: programs reach no hosts here. Run it without network, or fetch what it needs "
            "with web_fetch or http_request first. The operator may allow it in callboard.toml: "
            "[sandbox] network = true.",
            tier=Tier.SYSTEM,
            reason="[sandbox] network is off",
        )
    return "its program may reach hosts, and send there what it reads"
