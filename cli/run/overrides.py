"""What the command line changes of an agent, for one run, and what the run may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from .flags import EXAMPLE, budget_of

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ...runtime.budget import Budget


@dataclass(frozen=True)
class Tuning:
    """Options of `callboard run`; what is left out is as the agent has it."""

    fallback: Annotated[
        tuple[str, ...],
        Parameter(
            help="PROVIDER/MODEL that goes on when the model fails; more than once for more.",
            negative=(),
            show_default=False,
        ),
    ] = ()
    thinking: Annotated[
        Literal["off", "low", "medium", "high"] | None,
        Parameter(help="How much the model reasons before it answers."),
    ] = None
    temperature: Annotated[float | None, Parameter(help="The sampling temperature.")] = None
    max_tokens: Annotated[int | None, Parameter(help="The most tokens of one answer.")] = None

    budget: Annotated[
        str | None,
        Parameter(help="What the turn may use: " + EXAMPLE + ", or some of these."),
    ] = None
    session_budget: Annotated[
        str | None,
        Parameter(help="What the whole session may use, from now on; with --continue, anew."),
    ] = None

    def mistake(self) -> str | None:
        """What is wrong with the values, if something is."""
        from ...runtime.definitions import MAX_FALLBACKS, MAX_OUTPUT_TOKENS, MAX_TEMPERATURE

        if len(self.fallback) > MAX_FALLBACKS:
            return f"--fallback is given {len(self.fallback)} times; {MAX_FALLBACKS} are the most"
        for name in self.fallback:
            provider, _, model = name.partition("/")
            if not provider or not model:
                return f"--fallback {name!r} is no PROVIDER/MODEL, as in openai/gpt-5-mini"
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            return f"--temperature is between 0 and {MAX_TEMPERATURE:g}"
        if self.max_tokens is not None and not 1 <= self.max_tokens <= MAX_OUTPUT_TOKENS:
            return f"--max-tokens is between 1 and {MAX_OUTPUT_TOKENS}"
        for option, text in (("budget", self.budget), ("session-budget", self.session_budget)):
            try:
                _ = None if text is None else budget_of(text)
            except ValueError as error:
                return f"--{option}: {error}"
        return None

    @property
    def budgets(self) -> tuple[Budget | None, Budget | None]:
        """Those of the turn and of the session."""
        turn, session = self.budget, self.session_budget
        return (
            budget_of(turn) if turn is not None else None,
            budget_of(session) if session is not None else None,
        )

    def applied(self, settings: Settings, name: str) -> Settings:
        """The settings with the agent of that name changed.

        Raises:
            NotFoundError: There is no such agent, or no provider of a fallback.
        """
        import msgspec

        from ...providers.catalog.table import check_provider
        from ...runtime.definitions import ThinkingEffort
        from ...runtime.errors import NotFoundError

        for choice in self.fallback:
            try:
                check_provider(settings, choice)
            except NotFoundError as error:
                raise NotFoundError(f"--fallback {choice}: {error}") from error
        given: dict[str, Any] = {
            "fallbacks": self.fallback or None,
            "thinking": ThinkingEffort(self.thinking) if self.thinking is not None else None,
            "temperature": self.temperature,
            "max_output_tokens": self.max_tokens,
        }
        changes = {field: value for field, value in given.items() if value is not None}
        if not changes:
            return settings
        agent = msgspec.structs.replace(settings.agent(name), **changes)
        return msgspec.structs.replace(settings, agents={**settings.agents, name: agent})
