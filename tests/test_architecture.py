"""House rules that are cheap to prove. Import directions are import-linter's (pyproject.toml)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRONT_DOOR = ROOT / "src" / "callboard"
FOLDERS = tuple(sorted(path.name for path in FRONT_DOOR.iterdir() if path.is_symlink()))

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 40
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "managers", "base", "misc"}

LONG_FUNCTIONS: dict[str, str] = {}
"""Functions that may be longer, as `folder/module.py:name`, each with the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules_of_the_package() -> list[Path]:
    real = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
    return sorted([*real, *FRONT_DOOR.glob("*.py")])


MODULES = modules_of_the_package()
"""Each rule is one test over all of them: its failure names every offence."""


class Found(NamedTuple):
    """What the rules look for in one module."""

    lines: int
    too_long: list[str]
    undocumented: list[str]
    absolute: list[str]
    catches_anything: bool


@cache
def look(module: Path) -> Found:
    """Reads a module, once for all rules; its tree is not kept, which would be large for them all."""
    text = module.read_text(encoding="utf-8")
    tree, where = ast.parse(text, str(module)), place(module)
    nodes = list(ast.walk(tree))
    return Found(
        lines=len(text.splitlines()),
        too_long=too_long(tree, where),
        undocumented=undocumented(tree, where),
        absolute=absolute_imports(nodes, where),
        catches_anything=catches_anything(nodes),
    )


def place(module: Path) -> str:
    return str(module.relative_to(ROOT))


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its dotted name, methods and inner ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.expr):  # a lambda has no name, and nothing else is in one
            yield from functions(node, prefix)


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


def too_long(tree: ast.Module, where: str) -> list[str]:
    return [
        f"{where}:{name} has {lines} lines"
        for name, node in functions(tree)
        if (lines := code_lines(node)) > MAX_FUNCTION_LINES
        and f"{where}:{name}" not in LONG_FUNCTIONS
    ]


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring: a contract may be as long as it must."""
    lines = (node.end_lineno or 0) - node.lineno + 1
    if ast.get_docstring(node):
        docstring = node.body[0]
        lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return lines


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
    assert len(lines) > 400  # so many were there when this was written
    assert [name for name, count in lines.items() if count > MAX_MODULE_LINES] == []


def test_a_function_fits_on_a_screen() -> None:
    assert [found for module in MODULES for found in look(module).too_long] == []


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


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folders_door_holds_its_docstring_and_no_code(folder: str) -> None:
    tree = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


def test_every_folder_of_the_design_is_linked_into_the_package() -> None:
    assert set(FOLDERS) >= {"runtime", "actors", "tools", "providers", "config", "cli"}


def test_the_rules_find_what_breaks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    module = tmp_path / "wrong.py"
    body = "\n".join(f"    x = {n}" for n in range(MAX_FUNCTION_LINES))
    module.write_text(f"import callboard.x\nclass Thing:\n  def long(self):\n{body}\n")
    assert look(module) == Found(
        lines=MAX_FUNCTION_LINES + 3,
        too_long=["wrong.py:Thing.long has 41 lines"],
        undocumented=["wrong.py: the module", "wrong.py:Thing", "wrong.py:Thing.long"],
        absolute=["wrong.py: callboard"],
        catches_anything=False,
    )
    for handler, catches in {
        "BaseException: raise": False,
        "(Exception, SystemExit) as error: log(error)": True,
    }.items():
        tree = ast.parse(f"try: x()\nexcept {handler}")
        assert catches_anything(list(ast.walk(tree))) is catches
