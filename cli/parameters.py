"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Json = Annotated[bool, Parameter(help="Print JSON, one object a line.", negative=())]
Config = Annotated[Path | None, Parameter(help="A configuration file.")]
DialectOption = Annotated[
    Literal["openai_chat", "openai_responses", "anthropic", "gemini"] | None,
    Parameter(help="The wire format that the server speaks; by default OpenAI's chat format."),
]
Data = Annotated[Path | None, Parameter(help="The data folder; by default the user's own.")]


def data_path(data: Path | None, environ: Mapping[str, str] | None = None) -> Path:
    """The data folder that the option names, else the user's own, by another environment if given."""
    from ..config.files import data_folder

    return (data or data_folder(environ)).expanduser().absolute()
