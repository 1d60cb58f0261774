"""`callboard policy check`: the verdict about one call, without running it."""

from __future__ import annotations

import sys

import msgspec

from ..config.files import config_folder, data_folder
from ..config.policy import PolicyBook
from ..config.search_engines import search_places
from ..config.settings import Settings
from ..policy_verdict import CheckedCall, Judge, PolicyAnswer
from ..runtime.definitions import Preset
from ..tools.registry import ToolRegistry, builtin_tools
from .escaping import exact, safe_line
from .exit_codes import ANSWERED
from .json_lines import json_line


def show_verdict(call: CheckedCall, settings: Settings, *, json: bool) -> int:
    """Prints the verdict, what decided, and the tier of this very call.

    Raises:
        NotFoundError: There is no such agent.
        ValidationError: The arguments are wrong, or the workspace can't be one.
    """
    answer = answer_about(call, settings)
    if json:
        sys.stdout.write(json_line(answer))
        return ANSWERED
    sys.stdout.write(
        f"{answer.verdict}: {safe_line(answer.tool)} {exact(answer.arguments)}\n"
        f"  tier    {answer.tier}\n"
        f"  reason  {safe_line(answer.reason)}\n"
        f"  rule    {safe_line(answer.rule)}\n"
        f"  policy  {answer.policy[:12]} of agent {answer.agent}, {answer.kind} session\n"
    )
    return ANSWERED


def answer_about(call: CheckedCall, settings: Settings) -> PolicyAnswer:
    """The verdict about one call; see `show_verdict`."""
    agent = settings.agent(call.agent)
    if call.preset is not None:
        agent = msgspec.structs.replace(agent, policy=Preset(call.preset))
    judge = Judge(
        agent=agent,
        policies=PolicyBook(settings.rules, search_places(settings.search)),
        registry=ToolRegistry(builtin_tools()),
        forbidden=(data_folder(), config_folder()),
    )
    return judge.answer(call)
