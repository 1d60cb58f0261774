"""Options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter


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
        help="A folder below which sessions may work; more than once for more.",
        negative=(),
        show_default=False,
    ),
]


def named_data_path(data: Path | None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of `data_path` without a check, for `doctor`, which says what is wrong with it."""
    from ..config.files import data_folder

    return (data or data_folder(environ)).expanduser().absolute()


def data_path(data: Path | None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the data folder that the option names, or else the user's own, by `environ` if given.

    Raises:
        ValidationError: There can be no such folder, because what it is in, or it itself, is a file.
    """
    path = named_data_path(data, environ)
    found = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
    if found.exists() and not found.is_dir():
        from ..runtime.errors import ValidationError

        raise ValidationError(
            f"{path} can't be the data folder: {found} is not a folder. Choose another with --data.",
            field="data",
        )
    return path
