"""The last line above the input of a chat: where it works, with what, how full the context is, what it cost.

The window of a model is callboard's own figure, else the one that its provider lists. A local server knows
what it gives a model only once that is loaded, so it is asked after the first answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ...client.client import Client
from ...providers.catalog.known import KNOWN_MODELS, LOCAL_ORDER
from ...providers.provider import LENT_SIGN
from ...runtime.definitions import Preset
from ...runtime.errors import CallboardError
from ..terminal.escaping import safe_line, short_path
from ..terminal.folding import fitted, text_columns
from ..terminal.style import Style, cost_text

if TYPE_CHECKING:
    from .place import ChatOptions

SHORT_FOLDER_CHARS = 20
"""What is kept of the folder's end where the line is too long."""
NEARLY_FULL = 0.9
"""The share of a window from which on the next request may not fit."""


class StatusFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon knows of the session that is shown, or of the next one.

    Attributes:
        agent: Its agent.
        model: What answers the next prompt, unless that brings another.
        policy: The preset of its agent; `None` when the daemon does not say.
        cost: What its model calls cost, as text.
        window: The size of the model's context window, where that is known.
    """

    agent: str = ""
    model: str = ""
    policy: Preset | None = None
    cost: str = ""
    window: int | None = None


class ModelWindows:
    """The context windows of the models that a chat had, each asked for once, after its first answer."""

    def __init__(self) -> None:
        self._found: dict[str, int | None] = {}

    async def find(self, client: Client, choice: str) -> int | None:
        """Return the window of a `PROVIDER/MODEL` that has answered; `None` where nobody says it."""
        provider, _, name = choice.partition("/")
        name = name.partition(LENT_SIGN)[0]
        known = {each.model: each.context_tokens for each in KNOWN_MODELS.get(provider, ())}
        if choice not in self._found:
            self._found[choice] = known.get(name)
            is_lent = LENT_SIGN in choice
            is_local = provider in LOCAL_ORDER or is_lent
            method = "model/refresh" if is_local else "model/list"
            if known.get(name) is None and method in client.welcome.methods:
                with suppress(CallboardError):
                    place = choice if is_lent else provider
                    listed = await client.models.list(place, refresh=is_local)
                    windows = {each.choice: each.context_tokens for each in listed.models}
                    self._found[choice] = windows.get(choice.partition(LENT_SIGN)[0])
        return self._found[choice]


async def read_facts(client: Client, session_id: str | None, options: ChatOptions) -> StatusFacts:
    """Ask the daemon.

    Raises:
        CallboardError: It does not answer, or the session is gone.
    """
    methods = client.welcome.methods
    row = None if session_id is None else await client.session(session_id)
    name = options.agent if row is None else row.agent
    agents = await client.agents.list() if "agent/list" in methods else ()
    agent = next((each for each in agents if each.name == name), None)
    model = (options.model if row is None else row.model) or (agent.model if agent else None)
    cost = ""
    if row is not None and "usage/get" in methods:
        total = (await client.usage(session_id=row.session_id)).total
        if total.calls and total.cost is not None:
            cost = cost_text(total.cost, 0, 0)
            lacks = total.unpriced_calls or total.uncounted_calls
            cost = f"at least {cost}" if lacks else cost
    return StatusFacts(
        agent=name,
        model=model or (await client.status()).model,
        policy=agent.policy if agent is not None else None,
        cost=cost,
    )


def context_text(tokens: int, window: int | None) -> str:
    """Return how much of a model's context is used: `6% of 200k`, or the tokens; nothing where none is."""
    if not tokens:
        return ""
    if window is None:
        return f"{_short(tokens)} tokens"
    return f"{100 * tokens // window}% of {_short(window)}"


def window_warning(tokens: int, facts: StatusFacts) -> str:
    """Return what to say where the context is nearly full and the server would cut it in silence, else nothing."""
    is_silent = facts.model.startswith("ollama/") and facts.window is not None
    if not is_silent or tokens < NEARLY_FULL * (facts.window or 0):
        return ""
    return (
        f"the window of {facts.model} is {facts.window:,} tokens, and Ollama forgets what is beyond it without "
        "a word: give it more (OLLAMA_CONTEXT_LENGTH=32768 ollama serve), or begin /new"
    )


def _short(tokens: int) -> str:
    if tokens < 10_000:
        return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
    return f"{tokens // 1000}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.3g}M"


class StatusLine:
    """The last line of the terminal, which is laid out when it says something else: not for each piece of an answer."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._said: tuple[int, str, StatusFacts, str, str] | None = None
        self._line = ""

    def drawn(self, columns: int, folder: str, facts: StatusFacts, context: str, tail: str) -> str:
        """Return the line, no wider than the terminal."""
        said = (columns, folder, facts, context, tail)
        if said != self._said:
            self._said, self._line = said, status_line(self._style, *said)
        return self._line


def status_line(
    style: Style, columns: int, folder: str, facts: StatusFacts, context: str, tail: str
) -> str:
    """Return the line, no wider than the terminal; what tells least is left out first."""
    dot = " · " if style.signs else ", "
    agent = "" if facts.agent in {"", "general"} else facts.agent
    model, policy = safe_line(facts.model), str(facts.policy or "")
    room = max(columns - 1, 1)
    ends = [safe_line(agent), model, policy, context, facts.cost, tail]
    for parts in (
        [short_path(folder), *ends],
        [short_path(folder, SHORT_FOLDER_CHARS), *ends],
        [short_path(folder, SHORT_FOLDER_CHARS), model, policy, context, facts.cost, tail],
        [short_path(folder, SHORT_FOLDER_CHARS), model, policy, context, tail],
        [model, policy, context, tail],
        [model, policy, tail],
    ):
        text = dot.join(filter(None, parts))
        if text_columns(text) <= room:
            break
    painted = style.paint(fitted(text, room), "dim")
    if policy == Preset.AUTO and dot + policy in text:
        return painted.replace(dot + policy, dot + style.paint(policy, "yellow") + _again(style), 1)
    return painted


def _again(style: Style) -> str:
    """Return what begins the dim part again behind another colour."""
    return style.paint("", "dim").removesuffix("\x1b[0m") if style.colours else ""
