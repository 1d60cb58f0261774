"""The options of turns: where `run`, `record` and `chat` work, and what they change; those of `run` alone.

No annotation is a string here, nor in `app`: cyclopts would compile each one, which takes a third of its time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..parameters import DialectOption, Json, offered

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ...runtime.budget import Budget
    from ...runtime.event_types.turns import RerunWay
    from ...runtime.turn_options import TurnOptions


FIELDS = {
    "tokens": "tokens",
    "cost": "cost_usd",
    "seconds": "seconds",
    "tool-calls": "tool_calls",
    "model-calls": "model_calls",
}
"""Names on the command line, and the fields of `Budget`."""

EXAMPLE = "tokens=50000,cost=0.5,seconds=60,tool-calls=20,model-calls=10"


def budget_of(text: str) -> "Budget":
    """Return the budget that a text says; raise `ValueError` with what is wrong."""
    import msgspec

    from ...runtime.budget import MAX_AMOUNT, Budget

    amounts: dict[str, float] = {}
    for entry in text.split(","):
        name, equals, amount = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"{entry.strip()!r} is not NAME=AMOUNT, as in {EXAMPLE}")
        if name not in FIELDS:
            raise ValueError(f"there is no {name!r}; choices: {', '.join(FIELDS)}")
        if FIELDS[name] in amounts:
            raise ValueError(f"{name} is given twice")
        try:
            number = float(amount.replace("_", ""))
        except ValueError:
            raise ValueError(f"{name}={amount} is not a number") from None
        is_whole = name not in {"cost", "seconds"}
        if not 0 <= number <= MAX_AMOUNT or (is_whole and number != int(number)):
            kind = "a whole number" if is_whole else "a number"
            raise ValueError(f"{name}={amount}: it is {kind} from 0 to {MAX_AMOUNT}")
        amounts[FIELDS[name]] = int(number) if is_whole else number
    return msgspec.convert(amounts, Budget)


@dataclass(frozen=True)
class TurnFlags:
    """What the command line says of turns; what is left out is as the agent has it."""

    model: Annotated[
        str | None,
        Parameter(
            alias="-m", completer=offered("models"), help="PROVIDER/MODEL, or a provider's name."
        ),
    ] = None
    base_url: Annotated[
        str | None, Parameter(help="Any server that speaks one of the wire formats.")
    ] = None
    dialect: DialectOption = None
    workspace: Annotated[
        Path | None,
        Parameter(alias="-w", help="The folder that tools may touch; by default this one."),
    ] = None
    policy: Annotated[
        Literal["auto", "balanced", "strict"] | None,
        Parameter(help="How much runs without asking; by default the agent's, else balanced."),
    ] = None
    agent: Annotated[
        str | None,
        Parameter(
            alias="-a", completer=offered("agents"), help="A configured agent; general by default."
        ),
    ] = None
    attach: Annotated[
        tuple[Path, ...],
        Parameter(
            help="An image, a PDF or a text file for the model; more than once for more; - is stdin.",
            allow_leading_hyphen=True,
            negative=(),
            show_default=False,
        ),
    ] = ()
    fallback: Annotated[
        tuple[str, ...],
        Parameter(
            completer=offered("models"),
            help="PROVIDER/MODEL that goes on when the model fails; more than once for more.",
            negative=(),
            show_default=False,
        ),
    ] = ()
    thinking: Annotated[
        Literal["off", "low", "medium", "high"] | None,
        Parameter(help="How much the model reasons before it answers; by default the provider's."),
    ] = None
    temperature: Annotated[float | None, Parameter(help="The sampling temperature.")] = None
    max_tokens: Annotated[
        int | None, Parameter(help="The most tokens of one answer; by default the provider's.")
    ] = None
    tools: Annotated[
        str | None,
        Parameter(
            help="Which of the agent's tools there are, as in read_file,search_files; '' is none."
        ),
    ] = None
    timeout: Annotated[
        float | None, Parameter(help="How many seconds a turn may take, waiting for you included.")
    ] = None

    budget: Annotated[
        str | None, Parameter(help="What the turn may use: " + EXAMPLE + ", or some of these.")
    ] = None
    session_budget: Annotated[
        str | None,
        Parameter(help="What the whole session may use, from now on."),
    ] = None

    def mistake(self) -> str | None:
        """Return what is wrong with the values, if something is."""
        from ...runtime.budget import MAX_AMOUNT
        from ...runtime.definitions import MAX_FALLBACKS, MAX_OUTPUT_TOKENS, MAX_TEMPERATURE

        if self.model is not None and not self.model.strip():
            return "--model is empty: write PROVIDER/MODEL, or leave it out"
        if self.dialect is not None and self.base_url is None:
            return "--dialect goes with --base-url: a provider has its own"
        if len(self.fallback) > MAX_FALLBACKS:
            return f"--fallback is given {len(self.fallback)} times; {MAX_FALLBACKS} are the most"
        for name in self.fallback:
            provider, _, model = name.partition("/")
            if not provider or not model:
                return f"--fallback {name!r} is not PROVIDER/MODEL, as in openai/gpt-5-mini"
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            return f"--temperature is between 0 and {MAX_TEMPERATURE:g}"
        if self.max_tokens is not None and not 1 <= self.max_tokens <= MAX_OUTPUT_TOKENS:
            return f"--max-tokens is between 1 and {MAX_OUTPUT_TOKENS}"
        if self.timeout is not None and not 0 < self.timeout <= MAX_AMOUNT:
            return "--timeout is a number of seconds above 0"
        for option, text in (("budget", self.budget), ("session-budget", self.session_budget)):
            try:
                _ = None if text is None else budget_of(text)
            except ValueError as error:
                return f"--{option}: {error}"
        return None

    @property
    def budgets(self) -> "tuple[Budget | None, Budget | None]":
        """The budgets of the turn and of the session."""
        turn, session = self.budget, self.session_budget
        return (
            budget_of(turn) if turn is not None else None,
            budget_of(session) if session is not None else None,
        )

    def turn_options(self, model: str | None) -> "TurnOptions":
        """Return the options that replace those of the agent in a turn, with this model."""
        from ...runtime.definitions import Preset, ThinkingEffort
        from ...runtime.turn_options import TurnOptions

        return TurnOptions(
            model=model,
            fallbacks=self.fallback or None,
            thinking=None if self.thinking is None else ThinkingEffort(self.thinking),
            temperature=self.temperature,
            max_output_tokens=self.max_tokens,
            policy=None if self.policy is None else Preset(self.policy),
            tools=None if self.tools is None else tuple(filter(None, _words(self.tools))),
            timeout_seconds=self.timeout,
        )

    def apply(self, settings: "Settings", name: str) -> "Settings":
        """Return the settings with the agent of that name changed.

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


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


@dataclass(frozen=True)
class RunFlags(TurnFlags):
    """What the command line says of a run."""

    json: Json = False
    quiet: Annotated[
        bool,
        Parameter(
            name=("--quiet", "-q"),
            help="Print the answer alone, and on stderr nothing but errors and questions.",
            negative=(),
        ),
    ] = False
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="Write the answer to this file, not to stdout."),
    ] = None
    answer_schema: Annotated[
        Path | None,
        Parameter(
            help="A file with a JSON Schema: the answer is JSON that fits it, alone on stdout."
        ),
    ] = None
    resume: Annotated[
        bool,
        Parameter(
            name=("--continue", "-c"),
            help="Go on with the last session of this folder; without a prompt, with what was left in it.",
            negative=(),
        ),
    ] = False
    session: Annotated[
        str | None,
        Parameter(
            alias="-s",
            completer=offered("sessions"),
            help="Go on with this session: its id, the beginning of it, or last.",
        ),
    ] = None
    retry: Annotated[
        bool,
        Parameter(
            help="With --continue: run its last turn again, which failed or was cancelled.",
            negative=(),
        ),
    ] = False
    regenerate: Annotated[
        bool,
        Parameter(help="With --continue: have its last turn answered again.", negative=()),
    ] = False

    def __post_init__(self) -> None:
        if self.session is not None:  # whoever names a session goes on with it
            object.__setattr__(self, "resume", True)

    @property
    def again(self) -> "RerunWay | None":
        """Which way the last turn is run again, in the place of a prompt."""
        return "retry" if self.retry else "regenerate" if self.regenerate else None

    def mistake(self) -> str | None:
        """Return what is wrong with the values, if something is."""
        if self.json and self.quiet:
            return "--json is for programs, and has all events: leave --quiet out"
        if self.retry and self.regenerate:
            return "--retry is for a turn that failed, --regenerate for one that was answered: give one"
        if self.again is not None and not self.resume:
            return f"--{self.again} goes with --continue: it says whose last turn is run again"
        return super().mistake()
