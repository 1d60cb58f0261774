from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from callboard.gateway.console.pages import FOLDER, read_table
from callboard.gateway.methods.all import protocol_schema
from callboard.runtime.identity import VERSION

ROOT = Path(__file__).resolve().parent.parent
FRONT_DOOR = ROOT / "src" / "callboard"


def files_of_the_tree() -> set[str]:
    """What the package must hold: the real files of the front door, and each linked folder."""
    found = {
        str(path.relative_to(FRONT_DOOR))
        for path in FRONT_DOOR.rglob("*")  # which does not follow the links
        if path.is_file() and path.suffix != ".pyc"
    }
    for folder in (path for path in FRONT_DOOR.iterdir() if path.is_symlink()):
        real = folder.resolve()
        assert real == ROOT / folder.name
        found |= {
            f"{folder.name}/{path.relative_to(real)}"
            for path in real.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
    built = ROOT / "console" / "dist"
    assert (FRONT_DOOR / "console" / "dist").resolve() == built
    found |= {
        f"console/dist/{path.relative_to(built)}" for path in built.rglob("*") if path.is_file()
    }
    return {f"callboard/{name}" for name in found}


def build(*arguments: str, into: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel_of_the_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    build("--wheel", str(ROOT), into=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def built_from_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    build(str(ROOT), into=folder)  # the wheel is made from the sdist
    return folder


def test_the_wheel_holds_every_file_of_the_folders_and_nothing_else(
    wheel_of_the_tree: Path,
) -> None:
    packed = {name for name in names_in(wheel_of_the_tree) if name.startswith("callboard/")}
    assert packed == files_of_the_tree()


def test_the_wheel_puts_nothing_but_callboard_into_site_packages(wheel_of_the_tree: Path) -> None:
    top = {name.partition("/")[0] for name in names_in(wheel_of_the_tree)}
    metadata = {name for name in top if name.endswith(".dist-info")}
    assert top - metadata == {"callboard"}
    assert len(metadata) == 1


def test_the_wheel_carries_its_command_and_its_licence(wheel_of_the_tree: Path) -> None:
    with zipfile.ZipFile(wheel_of_the_tree) as archive:
        text = {
            name.rpartition("/")[2]: archive.read(name).decode()
            for name in archive.namelist()
            if ".dist-info/" in name
        }
    assert "callboard = callboard.__main__:main" in text["entry_points.txt"]
    assert "Apache License" in text["LICENSE"]
    assert "License-Expression: Apache-2.0" in text["METADATA"]
    assert f"\nVersion: {VERSION}\n" in text["METADATA"]


def test_a_wheel_from_the_sdist_is_the_same(
    wheel_of_the_tree: Path, built_from_sdist: Path
) -> None:
    assert names_in(next(built_from_sdist.glob("*.whl"))) == names_in(wheel_of_the_tree)


def test_the_sdist_keeps_the_folders_at_the_top(built_from_sdist: Path) -> None:
    with tarfile.open(next(built_from_sdist.glob("*.tar.gz"))) as archive:
        top = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    folders = {path.name for path in FRONT_DOOR.iterdir() if path.is_symlink()}
    assert top >= folders | {"tests", "src", "pyproject.toml", "README.md", "LICENSE"}


def test_the_console_is_in_the_wheel_and_small(wheel_of_the_tree: Path) -> None:
    with zipfile.ZipFile(wheel_of_the_tree) as archive:
        built = {
            each.filename.removeprefix("callboard/console/dist/"): each.file_size
            for each in archive.infolist()
            if each.filename.startswith("callboard/console/")
        }
    assert {"index.html", "icon.svg", "manifest.json", "LICENSES.txt"} <= built.keys()
    assert sum(built.values()) < 600_000
    assert not any("node_modules" in name or name.endswith((".ts", ".map")) for name in built)


def test_the_console_of_the_tree_is_what_the_daemon_serves() -> None:
    table = read_table(FOLDER)
    page = table["index.html"].content.decode()
    named = re.findall(r'(?:src|href)="/console/([^"]+)"', page)
    assert any(name.endswith(".js") for name in named)
    assert set(named) <= table.keys()
    assert not re.search(
        r"<script(?![^>]*\bsrc=)|<style| on\w+=|style=", page
    )  # the policy forbids it


def test_the_lock_of_the_console_names_no_registry() -> None:
    lock = (ROOT / "console" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert lock.count('"integrity"') > 60


def test_the_types_of_the_console_are_those_of_the_protocol() -> None:
    printed = msgspec.json.format(msgspec.json.encode(protocol_schema()), indent=2) + b"\n"
    types = (ROOT / "console" / "src" / "protocol.ts").read_text(encoding="utf-8")
    without_docstrings = re.sub(rb'^ *"description": .*\n', b"", printed, flags=re.MULTILINE)
    digest = hashlib.sha256(without_docstrings).hexdigest()
    assert digest in types, (
        "the protocol has changed: run scripts/console-build, and commit what it writes"
    )


def test_the_console_names_each_package_that_it_is_built_with_and_has_its_licence() -> None:
    console = ROOT / "console"
    wanted = {
        found[1]
        for each in (console / "src").rglob("*.ts*")
        for found in re.finditer(
            r"""(?:from|import)\s*\(?\s*"((?:@[\w-]+/)?[\w-][\w.-]*)(?:/[^"]*)?\"""",
            each.read_text(),
        )
    }
    assert {"preact", "marked", "dompurify", "@preact/signals"} <= wanted
    locked = json.loads((console / "package-lock.json").read_text())["packages"]
    left = list(wanted)
    while left:  # what they need themselves is in the build too
        below = set(locked[f"node_modules/{left.pop()}"].get("dependencies", ())) - wanted
        wanted |= below
        left.extend(below)
    said = {}
    for part in (console / "dist/LICENSES.txt").read_text().split("\n----\n"):
        head = re.search(r"^(\S+) (\S+) \(([^()]|\(.*\))+\)\n\n(?=.*\S)", part, re.MULTILINE)
        assert head is not None, part[:100]
        said[head[1]] = head[2]
    assert said == {name: locked[f"node_modules/{name}"]["version"] for name in wanted}
