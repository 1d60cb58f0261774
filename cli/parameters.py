"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from .data_path import data_path as data_path  # with the option, which all have that ask for it
from .data_path import named_data_path as named_data_path


def offered(what: str) -> Callable[[Any], Any]:
    """Return a completer: the function of `completion` that has this name, imported when Tab is pressed."""

    def offer(context: Any) -> Any:
        return getattr(import_module(f"{__package__}.completion"), what)(context)

    return offer


Json = Annotated[bool, Parameter(help="Print JSON, one object a line.", negative=())]
Yes = Annotated[bool, Parameter(help="Do it without asking.", negative=())]
Verbose = Annotated[
    bool,
    Parameter(
        help="Say more on the way: each request, its time, tokens and cost, and why calls ran.",
        negative=(),
    ),
]
Config = Annotated[Path | None, Parameter(help="A configuration file.")]
DialectOption = Annotated[
    Literal["openai_chat", "openai_responses", "anthropic", "gemini"] | None,
    Parameter(help="The wire format that the server speaks; by default OpenAI's chat format."),
]
Data = Annotated[Path | None, Parameter(help="The data folder; by default the user's own.")]
Roots = Annotated[
    tuple[Path, ...],
    Parameter(
        name="--root",
        help="A folder below which sessions may work, or NAME=FOLDER for a root with a name; more than once for more.",
        negative=(),
        show_default=False,
    ),
]
