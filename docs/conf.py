"""How Sphinx makes the documentation site of docs/; `make docs` builds it, without a network."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import callboard
from callboard.config.settings import DialectWord
from callboard.portals import aio
from callboard.runtime.definitions import PresetWord

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "callboard"
html_title = "callboard"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns: list[str] = []
suppress_warnings = [
    "misc.highlighting_failure",  # a block of `text` may hold what no lexer reads
    "ref.python",  # a signature says `Runtime`, which three doors have
]

# The pages are also read on GitHub, whose links to headings these are.
myst_heading_anchors = 4
myst_links_external_new_tab = True

# Docstrings are Google's style; `spelled` reads one backtick as Markdown does.
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80

html_theme = "furo"  # system fonts, and nothing that is fetched
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#6d5e0f", "color-brand-content": "#6d5e0f"},
    "dark_css_variables": {"color-brand-primary": "#dcc66e", "color-brand-content": "#dcc66e"},
}

_RAISES = re.compile(r"^ *(?:Raises|Entering it raises):\n((?: {4,}.*\n?|\n)+)", re.MULTILINE)


_WORDS = {
    "DialectName | DialectWord": DialectWord,
    "Preset | PresetWord": PresetWord,
    "ErrorType | ErrorTypeWord": "ErrorType | str",  # there are 23
}
_PLAINER = [
    (r"Annotated\[int, msgspec\.Meta\(ge=-9223372036854775808, le=\d+\)\]", "int"),
    (r"(?<== )(\w+)\((?:[^()]|\([^()]*\))+\)", r"\1()"),  # a section's own defaults
    (r"<(\w+\.\w+): [^>]+>", r"\1"),  # a member of an enum
    *((re.escape(name), str(what).removeprefix("typing.")) for name, what in _WORDS.items()),
]
_CODE = re.compile(r"(?<![`:])`([^`]+)`(?!`)")


def callables() -> Iterator[tuple[str, Any]]:
    """Each public function and method, by the name under which a program calls it."""
    yield from (
        (f"callboard.{name}", getattr(callboard, name))
        for name in ("open_runtime", "start_in_thread", "connect", "tool", "load_settings")
    )
    yield "callboard.aio.open_runtime", aio.open_runtime
    for kind in (callboard.Runtime, callboard.Session, callboard.Turn, callboard.Client):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield f"callboard.{kind.__name__}.{name}", method


def raised_by() -> dict[str, list[str]]:
    """Who raises each error, as the docstrings say it."""
    found: dict[str, list[str]] = {}
    for name, function in callables():
        for section in _RAISES.findall((inspect.getdoc(function) or "") + "\n"):
            for error in re.findall(r"^    (\w+): ", section, re.MULTILINE):
                found.setdefault(error, []).append(name)
    return found


def spelled(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Write the examples of a docstring as code, and who raises an error below it."""
    made = list(examples_as_code(lines))
    is_error = inspect.isclass(thing) and issubclass(thing, callboard.CallboardError)
    if is_error and (raisers := raised_by().get(thing.__name__)):
        made += ["", "Raised by " + ", ".join(f":py:obj:`{each}`" for each in raisers) + "."]
    lines[:] = made


def examples_as_code(lines: Iterable[str]) -> Iterator[str]:
    """Write each `Example:` as a block of Python, and what stands in single backticks as code."""
    is_code = False
    for line in lines:
        if line == "Example:":
            is_code = True
            yield from (".. rubric:: Example", "", ".. code-block:: python", "")
            continue
        is_code = is_code and (not line or line.startswith(" "))
        yield line if is_code else _CODE.sub(r"``\1``\\ ", line)


def signed(app: Sphinx, what: str, name: str, *given: Any) -> tuple[str | None, str | None]:
    """Write a signature for readers: words as they are written, and no defaults of defaults."""
    _, _, signature, returns = given
    for pattern, plain in _PLAINER if signature else ():
        signature = re.sub(pattern, plain, signature)
    return signature, returns and re.sub(
        r"AsyncGenerator\[(\w+), None\]", r"AsyncContextManager[\1]", returns
    )


def public(app: Sphinx, env: Any, node: Any, contents: Any) -> Any:
    """Lead a type that a signature names by its module to the name that `callboard` exports."""
    name = node.get("reftarget", "").rpartition(".")[2]
    if node.get("refdomain") != "py" or not hasattr(callboard, name):
        return None
    domain = env.get_domain("py")
    target = f"callboard.{name}"
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contents)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", spelled, priority=400)  # before napoleon reads it
    app.connect("autodoc-process-signature", signed)
    app.connect("missing-reference", public)
