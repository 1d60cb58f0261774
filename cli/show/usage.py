"""`callboard usage`: sums up what the model calls on record took and cost."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import trio
from cyclopts import Parameter

from ...config.files import load_settings
from ...config.prices import PriceTable
from ...config.usage_sums import UsageReport, UsageSum, UsageSums, read_usage
from ...runtime.errors import NotFoundError, ValidationError
from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Json, data_path
from ..record_names import find_session
from ..terminal.complaint import complain, wrong_usage
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import cost_text, counted
from .sessions import open_record

_SPAN = re.compile(r"([0-9]{1,5})([mhdw])")
_UNKNOWN = "?"
_LAST = (">estimated", "cost")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def begin_of(since: str | None) -> int:
    """Return the time that `--since` means, in Unix milliseconds: `30d` ago, or a day like `2026-01-31`.

    Raises:
        ValidationError: It is neither.
    """
    if since is None:
        return 0
    if span := _SPAN.fullmatch(since):
        return int((time.time() - int(span[1]) * _SECONDS[span[2]]) * 1000)
    try:
        return int(datetime.strptime(since, "%Y-%m-%d").timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValidationError(
            f"--since {since!r} is not a time: write 30d (or m, h, w), or a day like 2026-01-31",
            field="since",
        ) from None


By = Annotated[
    Literal["call", "turn", "session", "agent", "model", "day"] | None,
    Parameter(
        help="What each sum is about; by default session, or turn when one session is named."
    ),
]
Since = Annotated[
    str | None, Parameter(help="Only since then: 30d, 12h, 2w, or a day like 2026-01-31.")
]
SessionChoice = Annotated[
    str | None, Parameter(help="One session: its id, the beginning of it, or last.")
]


def usage(
    session: SessionChoice = None,
    /,
    *,
    by: By = None,
    since: Since = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Sum up what model calls took, in tokens, and cost, at present prices."""
    try:
        since_ms = begin_of(since)
    except ValidationError as error:
        return wrong_usage(str(error), "usage")
    settings = load_settings(config)
    each_is = by or ("session" if session is None else "turn")
    sums = UsageSums(each_is, PriceTable(settings.prices))
    report = trio.run(_read, data_path(data), session, sums, since_ms)
    if not report.sums:
        complain("There is no model call on record for that.")
    shown = report.sums if json or len(report.sums) < 2 else (*report.sums, report.total)
    if json:
        sys.stdout.writelines(map(json_line, shown))
    elif sys.stdout.isatty():
        heads = (each_is, "model", ">calls", ">tokens in", ">cached", ">tokens out", *_LAST)
        write_list(heads, _told(map(_cells, shown)))
    else:
        sys.stdout.writelines(map(usage_line, shown))
    return ANSWERED


async def _read(data: Path, session: str | None, sums: UsageSums, since_ms: int) -> UsageReport:
    try:
        async with open_record(data) as reader:
            row = await find_session(reader, session) if session is not None else None
            session_id = row.session_id if row is not None else None
            return await read_usage(reader, sums, session_id=session_id, since_ms=since_ms)
    except NotFoundError:
        if session is not None:
            raise
        return sums.report()


def usage_line(each: UsageSum) -> str:
    """Return the line of a sum."""
    counts = [
        counted(each.calls, "call"),
        _tokens(each.input_tokens, "in"),
        _tokens(each.output_tokens, "out"),
        cost_text(each.cost, each.unpriced_calls, each.uncounted_calls),
    ]
    if each.estimated_tokens is not None:
        counts.append(f"about {each.estimated_tokens:,} more, estimated")
    model = each.model if each.model not in {None, each.name} else ""
    name = " ".join(filter(None, (each.name, model and f"({model})")))
    return f"{safe_line(name)}  {'  '.join(counts)}\n"


def _cells(each: UsageSum) -> tuple[str, ...]:
    cost = cost_text(each.cost, each.unpriced_calls, each.uncounted_calls)
    more = "" if each.estimated_tokens is None else f"about {each.estimated_tokens:,}"
    model = each.model if each.model not in {None, each.name} else ""
    counts = (each.input_tokens, each.cached_tokens, each.output_tokens)
    return (
        safe_line(each.name),
        safe_line(model or ""),
        f"{each.calls:,}",
        *(_UNKNOWN if count is None else f"{count:,}" for count in counts),
        more,
        cost,
    )


def _told(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows without what is unknown in all of them: such a column says nothing."""
    columns = [
        [""] * len(cells) if {*cells} == {_UNKNOWN} else cells for cells in zip(*rows, strict=True)
    ]
    return [*zip(*columns, strict=True)]


def _tokens(count: int | None, direction: str) -> str:
    return f"{count:,} {direction}" if count is not None else f"? {direction}"
