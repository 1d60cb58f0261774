"""House rules that are cheap to prove. Import directions are import-linter's (pyproject.toml)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRONT_DOOR = ROOT / "src" / "callboard"
FOLDERS = tuple(sorted(path.name for path in FRONT_DOOR.iterdir() if path.is_symlink()))

MAX_MODULE_LINES = 600
MAX_FOLDER_MODULES = 15
GENERATED = {"cli/acp/wire.py"}
"""Modules that a script writes from somebody else's schema: nobody reads them from top to bottom."""
"""Beside the door and the sub-folders: what a reader takes in at a glance."""
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "managers", "base", "misc"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules_of_the_package() -> list[Path]:
    real = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
    return sorted([*real, *FRONT_DOOR.rglob("*.py")])  # rglob does not follow the links


MODULES = modules_of_the_package()
"""Each rule is one test over all of them: its failure names every offence."""
DOORS = [path for path in MODULES if path.name == "__init__.py" and path.parent != FRONT_DOOR]


class Found(NamedTuple):
    """What the rules look for in one module."""

    lines: int
    undocumented: list[str]
    absolute: list[str]
    catches_anything: bool
    classes: list[str]


@cache
def look(module: Path) -> Found:
    """Reads a module, once for all rules; its tree is not kept, which would be large for them all."""
    text = module.read_text(encoding="utf-8")
    tree, where = ast.parse(text, str(module)), place(module)
    nodes = list(ast.walk(tree))
    return Found(
        lines=len(text.splitlines()),
        undocumented=undocumented(tree, where),
        absolute=absolute_imports(nodes, where),
        catches_anything=catches_anything(nodes),
        classes=[
            name for name, _ in public_definitions(tree) if name[0].isupper() and "." not in name
        ],
    )


def place(module: Path) -> str:
    return str(module.relative_to(ROOT))


def public_definitions(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Public classes and functions, and the public methods of public classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{node.name}.")


def imported_names(nodes: list[ast.AST]) -> Iterator[str]:
    """Every module that is imported absolutely."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def absolute_imports(nodes: list[ast.AST], where: str) -> list[str]:
    roots = {name.partition(".")[0] for name in imported_names(nodes)}
    return [f"{where}: {name}" for name in sorted(roots & {"callboard", *FOLDERS})]


def undocumented(tree: ast.Module, where: str) -> list[str]:
    missing = [] if ast.get_docstring(tree) else [f"{where}: the module"]
    return missing + [
        f"{where}:{name}"
        for name, node in public_definitions(tree)
        if not ast.get_docstring(node) and not is_overload(node)
    ]


def catches_anything(nodes: list[ast.AST]) -> bool:
    """Whether it keeps an exception that it did not name, instead of raising."""
    broad = {"Exception", "BaseException", "ExceptionGroup", "BaseExceptionGroup"}
    return any(
        isinstance(node, ast.ExceptHandler)
        and (node.type is None or any(ast.unparse(name) in broad for name in ast.walk(node.type)))
        and not isinstance(node.body[-1], ast.Raise)
        for node in nodes
    )


def is_overload(node: ast.ClassDef | Function) -> bool:
    return any(ast.unparse(mark).endswith("overload") for mark in node.decorator_list)


def test_a_module_is_short_enough_to_read() -> None:
    lines = {place(module): look(module).lines for module in MODULES}
    assert lines.keys() >= GENERATED
    assert len(lines) > 400  # so many were there when this was written
    long = {name for name, count in lines.items() if count > MAX_MODULE_LINES}
    assert long - GENERATED == set()


def test_a_folder_has_so_few_modules_that_one_glance_takes_them_in() -> None:
    counts = Counter(place(path.parent) for path in MODULES if path.name != "__init__.py")
    assert len(counts) > 60  # so many were there when this was written
    assert {folder: n for folder, n in counts.items() if n > MAX_FOLDER_MODULES} == {}


def test_everything_public_is_documented() -> None:
    assert [found for module in MODULES for found in look(module).undocumented] == []


def test_imports_inside_the_package_are_relative() -> None:
    # An absolute one lets a type checker that opens the real path see two classes of one name; a
    # folder's bare name would only be found by accident.
    assert [found for module in MODULES for found in look(module).absolute] == []


def test_whatever_catches_any_exception_is_listed_with_its_reason() -> None:
    listed = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = listed.partition("## Where any exception is caught")[2]
    catching = {place(module) for module in MODULES if look(module).catches_anything}
    named = {place(module) for module in MODULES if f"| `{place(module)}` |" in rows}
    assert (catching - named, named - catching) == (set(), set())


def test_a_module_is_named_by_its_noun() -> None:
    assert [place(module) for module in MODULES if module.stem in VAGUE_NAMES] == []


def test_no_two_public_classes_have_one_name() -> None:
    # The structs of wire formats have their providers' words, and portals the names of what they wrap.
    places: dict[str, set[str]] = {}
    for module in MODULES:
        formats = re.match(
            r"(providers/(anthropic|gemini|openai\w*)|gateway/(agui|openai))/", place(module)
        )
        own = module.parent.name != "portals" and place(module) not in GENERATED
        for name in look(module).classes if own else ():
            places.setdefault(name, set()).add("a wire format" if formats else place(module))
    assert {name for name, found in places.items() if len(found) > 1} == {
        "Session",  # the actor, and a program's handle on it
        "Turn",
    }


def test_every_folder_has_a_door_that_holds_its_docstring_and_no_code() -> None:
    # A door that imports its rooms makes every command start slower.
    assert {place(path.parent) for path in MODULES if path.parent != FRONT_DOOR} == {
        place(door.parent) for door in DOORS
    }
    trees = {place(door): ast.parse(door.read_text(encoding="utf-8")) for door in DOORS}
    assert [door for door, tree in trees.items() if not ast.get_docstring(tree)] == []
    assert [door for door, tree in trees.items() if len(tree.body) != 1] == []


@pytest.mark.parametrize("word", ["Begin with", "Comes in:", "Goes out:", "Owns:", "Imports:"])
def test_every_door_says_how_its_folder_is_entered(word: str) -> None:
    texts = {place(door): door.read_text(encoding="utf-8") for door in DOORS}
    assert [door for door, text in texts.items() if f"\n{word} " not in text] == []


def test_the_import_contracts_name_folders_and_never_modules() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = linter["importlinter"]["contracts"]
    assert len(contracts) == 8
    named = {name for contract in contracts for name in contract.get("allowed_importers", ())}
    single = {
        name
        for name in named
        if not (FRONT_DOOR / name.split(".", 1)[1].replace(".", "/")).is_dir()
    }
    assert not single


def test_every_folder_of_the_design_is_linked_into_the_package() -> None:
    assert set(FOLDERS) >= {"runtime", "actors", "tools", "providers", "config", "cli"}


def test_the_rules_find_what_breaks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "wrong.py"
    module.write_text("import callboard.x\nclass Thing:\n  def method(self):\n    x = 1\n")
    assert look(module) == Found(
        lines=4,
        undocumented=["wrong.py: the module", "wrong.py:Thing", "wrong.py:Thing.method"],
        absolute=["wrong.py: callboard"],
        catches_anything=False,
        classes=["Thing"],
    )
    for handler, catches in {
        "BaseException: raise": False,
        "(Exception, SystemExit) as error: log(error)": True,
    }.items():
        tree = ast.parse(f"try: x()\nexcept {handler}")
        assert catches_anything(list(ast.walk(tree))) is catches
