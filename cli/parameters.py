"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(help="Print JSON, one object a line.", negative=())]
Config = Annotated[Path | None, Parameter(help="A configuration file.")]
Data = Annotated[Path | None, Parameter(help="The data folder; by default the user's own.")]


def data_path(data: Path | None) -> Path:
    """The data folder that the option names, else the user's own."""
    from ..config.files import data_folder

    return (data or data_folder()).expanduser().absolute()
