"""How a prompt is run: the options that `callboard run` and `callboard record` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from .parameters import DialectOption, Json


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
