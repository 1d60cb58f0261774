"""How a prompt is run: the options that `callboard run` and `callboard record` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ..parameters import DialectOption, Json


@dataclass(frozen=True)
class Manner:
    """What a run works with; `None` is the usual thing."""

    model: Annotated[str | None, Parameter(help="PROVIDER/MODEL, or a provider's name.")] = None
    base_url: Annotated[
        str | None, Parameter(help="Any server that speaks one of the wire formats.")
    ] = None
    dialect: DialectOption = None
    json: Json = False
    workspace: Annotated[
        Path | None, Parameter(help="The folder that tools may touch; by default this one.")
    ] = None
    resume: Annotated[
        bool,
        Parameter(
            name="--continue",
            help="Go on with the last session, or with --session; without a prompt, with what "
            "was left in it.",
            negative=(),
        ),
    ] = False
    session: Annotated[
        str | None,
        Parameter(help="With --continue: another session, its id or the beginning of it."),
    ] = None
    policy: Annotated[
        Literal["auto", "balanced", "strict"] | None,
        Parameter(help="How much runs without asking."),
    ] = None
    agent: Annotated[str | None, Parameter(help="A configured agent; general by default.")] = None
    attach: Annotated[
        tuple[Path, ...],
        Parameter(
            help="An image, a PDF or a text file for the model; more than once for more.",
            negative=(),
            show_default=False,
        ),
    ] = ()

    def mistake(self) -> str | None:
        """What is wrong with the values, if something is."""
        if self.model is not None and not self.model.strip():
            return "--model is empty: write PROVIDER/MODEL, or leave it out"
        if self.dialect is not None and self.base_url is None:
            return "--dialect goes with --base-url: a provider has its own"
        if self.session is not None and not self.resume:
            return "--session goes with --continue: it says which session goes on"
        return None


if TYPE_CHECKING:
    from ...runtime.budget import Budget

FIELDS = {
    "tokens": "tokens",
    "cost": "cost_usd",
    "seconds": "seconds",
    "tool-calls": "tool_calls",
    "model-calls": "model_calls",
}
"""The names on the command line, and those of `Budget`."""

EXAMPLE = "tokens=50000,cost=0.5,seconds=60,tool-calls=20,model-calls=10"


def budget_of(text: str) -> Budget:
    """The budget that a text says; raises `ValueError` with what is wrong."""
    import msgspec

    from ...runtime.budget import MAX_AMOUNT, Budget

    amounts: dict[str, float] = {}
    for entry in text.split(","):
        name, equals, amount = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"{entry.strip()!r} is no NAME=AMOUNT, as in {EXAMPLE}")
        if name not in FIELDS:
            raise ValueError(f"there is no {name!r}; choices: {', '.join(FIELDS)}")
        if FIELDS[name] in amounts:
            raise ValueError(f"{name} is given twice")
        try:
            number = float(amount.replace("_", ""))
        except ValueError:
            raise ValueError(f"{name}={amount} is no number") from None
        is_whole = name not in {"cost", "seconds"}
        if not 0 <= number <= MAX_AMOUNT or (is_whole and number != int(number)):
            kind = "a whole number" if is_whole else "a number"
            raise ValueError(f"{name}={amount}: it is {kind} from 0 to {MAX_AMOUNT}")
        amounts[FIELDS[name]] = int(number) if is_whole else number
    return msgspec.convert(amounts, Budget)
