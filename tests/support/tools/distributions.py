"""Distributions as an installer leaves them behind: a module, and beside it its dist-info."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

WEATHER = '''
"""Tools of a plugin."""

import callboard

@callboard.tool(tier="read_only", approval="always")
def weather(place: str) -> str:
    """Tells the weather of a place."""
    return f"{place}: VERSION"

@callboard.tool(raise_tier=lambda arguments: "elevated" if arguments.tonnes > 1 else "read_only")
def make_rain(tonnes: int = 1) -> str:
    """Makes rain."""
    return f"{tonnes} t"

tools = [weather, make_rain]
'''


def files_of(
    module: str,
    code: str,
    *,
    distribution: str,
    version: str = "1.0",
    points: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All files of a distribution with one module; `points` are its plugins."""
    points = {module: f"{module}:tools"} if points is None else points
    info = f"{distribution.replace('-', '_')}-{version}.dist-info"
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    return {
        f"{module}.py": code,
        f"{info}/METADATA": metadata,
        f"{info}/entry_points.txt": f"[callboard.tools]\n{lines}",
    }


def install(folder: Path, files: Mapping[str, str]) -> None:
    """Puts a distribution where the interpreter looks."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def wheel(folder: Path, files: Mapping[str, str], *, distribution: str, version: str) -> Path:
    """The same as a wheel, which pip installs."""
    stem = f"{distribution.replace('-', '_')}-{version}"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{stem}.dist-info/WHEEL": tags}.items():
            archive.writestr(name, text)
        listed = "".join(
            f"{name},,\n" for name in [*archive.namelist(), f"{stem}.dist-info/RECORD"]
        )
        archive.writestr(f"{stem}.dist-info/RECORD", listed)
    return path
