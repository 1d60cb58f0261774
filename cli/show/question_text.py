"""The text of a question about a call: everything that is decided about, and nothing that forges it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...config.policy.grant_binding import binding_of
from ...runtime.definitions import Binding
from ..terminal.escaping import exact, safe_line
from ..terminal.style import Style, counted

if TYPE_CHECKING:
    from ...runtime.messages import ApprovalRequest

ANSWERED_BY = "terminal"
"""The name that the record has for a person at a terminal."""

PLAIN = Style()

_DIFF_COLOURS = {"+": "green", "-": "red", "@": "dim"}


def question(request: ApprovalRequest, style: Style = PLAIN) -> str:
    """Return the text of a question: tool, tier, reason, every argument in full, preview."""
    place = f" ({request.number} of {request.count})" if request.count > 1 else ""
    head = f"callboard asks{place}: may {safe_line(request.tool)} run? (tier: {request.tier})"
    lines = ["", style.paint(head, "bold")]
    if request.origin:
        lines.append(f"  asked by: {safe_line(request.origin)}")
    lines += [f"  reason: {safe_line(request.reason)}", *argument_lines(request.arguments)]
    lines += preview_lines(request.preview, style)
    return "\n".join(lines) + "\n"


def changed_question(request: ApprovalRequest, changed: ApprovalRequest, style: Style) -> str:
    """Return the question as a person's own arguments change it, to show it before they count."""
    lines = ["your changes:", *change_lines(request.arguments, changed.arguments, style)]
    if changed.tier.rank > request.tier.rank:
        more = f"  tier: {changed.tier} instead of {request.tier}: it is asked about once more"
        lines.append(style.paint(more, "bold"))
    elif changed.tier is not request.tier:
        lines.append(f"  tier: {changed.tier} instead of {request.tier}")
    lines.append(f"  reason: {safe_line(changed.reason)}")
    lines += preview_lines(changed.preview, style)
    return "\n".join(lines) + "\n"


def preview_lines(preview: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield the preview of what would happen, if the tool has one."""
    if preview:
        yield "  preview:"
        yield from block(preview.removesuffix("\n"), style, is_diff=True)


def argument_lines(arguments: str) -> Iterator[str]:
    """Return every argument in full; `arguments` is a JSON object."""
    values = json.loads(arguments)
    if not values:
        yield "  no arguments"
    for name, value in values.items():
        if _is_long(value):
            yield f"  {_json(name)}: text of {len(value)} characters"
            yield from block(value)
        else:
            yield f"  {_json(name)}: {_json(value)}"


def change_lines(before: str, after: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield how the arguments differ; of a text of several lines, which lines."""
    old, new = json.loads(before), json.loads(after)
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new and _json(old[name]) == _json(new[name]):
            yield f"  {_json(name)}: as it was"
        elif _is_long(old.get(name)) and isinstance(new.get(name), str):
            yield f"  {_json(name)}:"
            yield from block(_line_changes(old[name], new[name]), style, is_diff=True)
        else:
            yield f"  {_json(name)}:"
            for sign, values in (("-", old), ("+", new)):
                if name in values:
                    text = f"{sign} {_json(values[name])}"
                    yield f"    | {style.paint(text, _DIFF_COLOURS[sign])}"


def coverage(tool: str, binding: Binding) -> str:
    """Return on one line which calls a remembered answer is about."""
    if not (binding.paths or binding.hosts):
        return f"{tool} with exactly the arguments {exact(binding.arguments)}"
    fixed = _defaults(tool) | json.loads(binding.arguments)
    open_ones = {*binding.paths, *binding.hosts, *binding.free}
    said = [
        *(f"{name} {_json(pattern)}" for name, pattern in binding.paths.items()),
        *(f"host {_json(host)}" for host in binding.hosts.values()),
        *(f"{name} {_json(value)}" for name, value in fixed.items() if name not in open_ones),
    ]
    rest = f"; {', '.join(binding.free)} may differ" if binding.free else ""
    return f"{tool} with {', '.join(said)}{rest}"


def _defaults(tool: str) -> dict[str, Any]:
    """Return the default values of a built-in tool's arguments."""
    from ...tools.builtin import builtin_tools  # here: most lists need it not

    for each in builtin_tools():
        if each.definition.name == tool:
            fields: dict[str, dict[str, Any]] = each.definition.parameters["properties"]
            return {name: said["default"] for name, said in fields.items() if "default" in said}
    return {}


def binding_asked(request: ApprovalRequest, arguments: str) -> Binding:
    """Return the calls that a remembered answer about this one is about."""
    return binding_of(request.tool, arguments, tier=request.tier)


def block(text: str, style: Style = PLAIN, *, is_diff: bool = False) -> Iterator[str]:
    """Yield lines behind a bar that no text can forge; tabs stay, since code is full of them."""
    is_escaped = False
    for line in text.split("\n"):
        shown = "\t".join(map(exact, line.split("\t")))
        is_escaped = is_escaped or shown != line
        colour = _DIFF_COLOURS.get(line[:1]) if is_diff else None
        yield f"    | {style.paint(shown, colour) if colour else shown}"
    if is_escaped:
        yield "    (what a terminal would obey or hide is shown as \\u escapes)"


def _line_changes(old: str, new: str) -> str:
    # An editor has callboard in memory for days, and mostly no change to show.
    from difflib import unified_diff

    if old.endswith("\n") and new.endswith("\n"):  # both end in the same way
        old, new = old[:-1], new[:-1]
    before, after = old.split("\n"), new.split("\n")
    changes = list(unified_diff(before, after, lineterm="", n=2))[2:]
    return "\n".join([f"@@ {counted(len(after), 'line')}, {len(before)} before @@", *changes])


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.rstrip("\n")


def _json(value: Any) -> str:
    return exact(json.dumps(value, ensure_ascii=False))
