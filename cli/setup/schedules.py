"""`callboard schedule`: lists schedules, makes, changes, pauses, runs and removes them.

They fire while `callboard serve` runs. When it does it makes the changes, and they hold at once. A schedule of
callboard.toml is changed there, with an editor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import trio
from cyclopts import App, Parameter

from ...config.files import config_file, parse_fields
from ...config.managed import fields_toml
from ...embedding.unattended.firing import firings_of, local_minute, sender_of
from ...embedding.unattended.schedules import ScheduleBook
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.identity import now_ms
from ...runtime.schedules.schedule import Schedule
from ...runtime.schedules.times import next_times
from ...runtime.wire.schedules import NEXT_TIMES, Firing, ScheduleRow, schedule_of_row
from ..backend import FileBackend, serving_daemon
from ..exit_codes import ANSWERED
from ..hints import runnable
from ..parameters import Config, Data, Json, data_path, offered
from ..run.flags import EXAMPLE
from ..show.sessions import open_record
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from .editor import budget_fields, new_text, of_options, read_text

if TYPE_CHECKING:
    from ...client.client import Client

Name = Annotated[str, Parameter(completer=offered("schedules"), help="The schedule's name.")]
NewName = Annotated[str, Parameter(help="The name of the new schedule.")]
Prompt = Annotated[str | None, Parameter(help="What is asked each time.")]
Cron = Annotated[
    str | None,
    Parameter(
        help="Minute, hour, day of the month, month, day of the week: '0 9 * * 1-5' is nine o'clock on workdays."
    ),
]
Every = Annotated[str | None, Parameter(help="Each so many minutes or hours: 15m, 2h.")]
At = Annotated[str | None, Parameter(help="Once, at a time like 2027-01-31T09:00.")]
Zone = Annotated[
    str | None, Parameter(help="The time zone of --cron and --at, like Europe/Berlin; else UTC.")
]
Agent = Annotated[
    str | None, Parameter(completer=offered("agents"), help="Whose tools, model and rules it has.")
]
Workspace = Annotated[
    Path | None, Parameter(help="The folder that it works in; by default a new one each time.")
]
SessionOption = Annotated[
    Literal["new", "same"] | None,
    Parameter(help="A new session each time, or always the same; by default new."),
]
Missed = Annotated[
    Literal["run_once", "skip"] | None,
    Parameter(help="What was due while nothing ran is run once, or left out; by default run once."),
]
Overlap = Annotated[
    Literal["skip", "queue"] | None,
    Parameter(
        help="While the last one still runs, the next is left out, or waits; by default left out."
    ),
]
UnattendedOption = Annotated[
    Literal["deny", "defer"] | None,
    Parameter(help="Calls that need a person are denied, or wait; by default as the agent."),
]
BudgetOption = Annotated[
    str | None, Parameter(help=f"What each firing may use: {EXAMPLE}, or some of these.")
]
ScheduleFile = Annotated[
    Path | None,
    Parameter(
        name="--file", help="A TOML file with its fields; - is stdin.", allow_leading_hyphen=True
    ),
]
Count = Annotated[int, Parameter(help="How many.")]

MAX_COUNT = 1000
"""Times or firings that are printed at most."""


class ScheduleChanges(Protocol):
    """What can be changed here and there; there it is awaited."""

    def create(self, schedule: Schedule, /) -> Any:
        """See `ScheduleBook.create`."""
        ...

    def update(self, schedule: Schedule, /) -> Any:
        """See `ScheduleBook.update`."""
        ...

    def pause(self, name: str, /) -> Any:
        """See `ScheduleBook.pause`."""
        ...

    def resume(self, name: str, /) -> Any:
        """See `ScheduleBook.resume`."""
        ...

    def delete(self, name: str, /) -> Any:
        """See `ScheduleBook.delete`."""
        ...


Change = Callable[[ScheduleChanges], Any]

schedule = App(
    name="schedule",
    help="List, make, change, pause, run and remove schedules: prompts that are sent by themselves.",
)


@schedule.command(name="list")
def list_schedules(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List the schedules: when each is planned next, and what became of its last firing."""
    rows = _open(config, data).ask(_rows, ScheduleBook.rows)
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        heads = ("schedule", "when", "next", "last", "agent", "prompt")
        write_list(heads, map(_cells, rows))
        _say_problems(rows)
    if rows and serving_daemon(config, data_path(data)) is None:
        complain("Nothing fires now: no daemon runs (`callboard serve`).")
    if not rows:
        complain("There are no schedules: `callboard schedule add NAME PROMPT --cron …` makes one.")
    return ANSWERED


@schedule.command
def show(name: Name, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Show a schedule: its fields as TOML, its next times, and its last firings."""
    row = _get(name, config, data)
    if json:
        sys.stdout.write(json_line(row))
        return ANSWERED
    print(f"# {row.name}, from {row.source}" + (", paused" if row.paused else ""))
    print(fields_toml(schedule_of_row(row)))
    for at_ms in row.next_at_ms:
        print(f"next {_time(row, at_ms)}")
    if row.skipped_at_ms is not None:
        print(f"left out {_time(row, row.skipped_at_ms)}: {safe_line(row.skipped)}")
    firings = _firings(name, 10, config, data)
    write_list(("fired", "session", "outcome"), [_firing_cells(row, each) for each in firings])
    _say_problems([row])
    return ANSWERED


@schedule.command
def add(
    name: NewName,
    prompt: Prompt = None,
    /,
    *,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    zone: Zone = None,
    agent: Agent = None,
    workspace: Workspace = None,
    session: SessionOption = None,
    missed: Missed = None,
    overlap: Overlap = None,
    unattended: UnattendedOption = None,
    budget: BudgetOption = None,
    file: ScheduleFile = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Make a schedule, of options or of a TOML file."""
    if every is not None and zone is not None:
        raise ValidationError("--zone is for --cron and --at; --every counts in UTC.", field="zone")
    given = {
        "name": name,
        "prompt": prompt,
        "cron": cron,
        "every": every,
        "at": at,
        "zone": zone,
        "agent": agent,
        "workspace": None if workspace is None else str(workspace.expanduser().absolute()),
        "session": session,
        "missed": missed,
        "overlap": overlap,
        "unattended": unattended,
        "budget": budget_fields(budget),
    }
    if file is None:
        made = of_options(Schedule, given, "prompt")
    else:
        fields = {field: value for field, value in given.items() if value is not None}
        made = _parsed(*read_text(file), fields, name)
    backend = _open(config, data)
    backend.ask(lambda client: client.schedules.create(made), lambda book: book.create(made))
    return _said("Made", name, config, data, json=json)


@schedule.command
def edit(
    name: Name,
    /,
    *,
    file: ScheduleFile = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Change a schedule as TOML in your editor ($VISUAL or $EDITOR), or to what a file says."""
    row = _get(name, config, data)
    before = schedule_of_row(row)
    times = {"name": name, "created_at_ms": row.created_at_ms, "updated_at_ms": row.updated_at_ms}
    with new_text(fields_toml(before), name, file, "callboard schedule edit") as (text, place):
        after = _parsed(text, place, times, name)
        if after == before:
            print(f"{name} is as it was.")
        else:
            backend = _open(config, data)
            backend.ask(
                lambda client: client.schedules.update(after), lambda book: book.update(after)
            )
            _said("Changed", name, config, data, json=json)
    return ANSWERED


@schedule.command(name="next")
def show_next(
    name: Name, /, *, count: Count = NEXT_TIMES, config: Config = None, data: Data = None
) -> int:
    """Print the next planned times of a schedule."""
    if not 1 <= count <= MAX_COUNT:
        raise ValidationError(f"--count is 1 to {MAX_COUNT}", field="count")
    row = _get(name, config, data)
    planned = next_times(schedule_of_row(row).times, now_ms(), count)
    for at_ms in planned:
        print(_time(row, at_ms))
    if not planned:
        print(f"{name} is over: it was planned once.")
    return ANSWERED


@schedule.command
def pause(name: Name, /, *, config: Config = None, data: Data = None) -> int:
    """Let a schedule not fire until it is resumed."""
    _change(lambda its: its.pause(name), config, data)
    print(f"Paused {name}.")
    return ANSWERED


@schedule.command
def resume(name: Name, /, *, config: Config = None, data: Data = None) -> int:
    """Let a schedule fire again; what it was planned for meanwhile is left out."""
    _change(lambda its: its.resume(name), config, data)
    return _said("Resumed", name, config, data)


@schedule.command
def run(name: Name, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Fire a schedule now, paused or not, in the daemon."""

    def here(book: ScheduleBook) -> Firing:
        book.row(name)
        raise ConflictError(f"no daemon runs that could fire {name}: start `callboard serve`.")

    firing = _open(config, data).ask(lambda client: client.schedules.run(name), here)
    if json:
        sys.stdout.write(json_line(firing))
    else:
        print(f"Fired {name} in {firing.session_id}.")
    return ANSWERED


@schedule.command
def remove(name: Name, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a schedule; its sessions stay."""
    _change(lambda its: its.delete(name), config, data)
    print(f"Removed {name}.")
    return ANSWERED


async def _rows(client: Client) -> list[ScheduleRow]:
    return [*await client.schedules.list()]


def _get(name: str, config: Path | None, data: Path | None) -> ScheduleRow:
    return _open(config, data).ask(
        lambda client: client.schedules.get(name), lambda book: book.row(name)
    )


def _open(config: Path | None, data: Path | None) -> FileBackend[ScheduleBook]:
    """Return where schedules are listed and changed: the daemon, or the files."""
    return FileBackend(
        serving_daemon(config, data_path(data)), lambda: ScheduleBook(config_file(config))
    )


def _change(change: Change, config: Path | None, data: Path | None) -> None:
    _open(config, data).ask(lambda client: change(client.schedules), change)


def _firings(name: str, count: int, config: Path | None, data: Path | None) -> list[Firing]:
    folder = data_path(data)

    async def read() -> list[Firing]:
        try:
            async with open_record(folder) as reader:
                return firings_of(await reader.named_inputs((sender_of(name),), count))
        except NotFoundError:
            return []  # there is no store yet

    def here(_: ScheduleBook) -> list[Firing]:
        return trio.run(read)

    async def there(client: Client) -> list[Firing]:
        return [*await client.schedules.firings(name, count)]

    return _open(config, data).ask(there, here)


def _said(
    verb: str, name: str, config: Path | None, data: Path | None, *, json: bool = False
) -> int:
    """Say what was done, and when the schedule is planned next."""
    row = _get(name, config, data)
    if json:
        sys.stdout.write(json_line(row))
        return ANSWERED
    planned = f" Next: {_time(row, row.next_at_ms[0])}." if row.next_at_ms else ""
    print(f"{verb} {name}.{planned}")
    if serving_daemon(config, data_path(data)) is None:
        print(runnable("It fires while `callboard serve` runs; no daemon runs now."))
    return ANSWERED


def _parsed(text: str, place: Path, defaults: Mapping[str, object], name: str) -> Schedule:
    found = parse_fields(text, place, Schedule, defaults)
    if found.name != name:
        raise ValidationError(
            f"{place}: name: a schedule keeps its name; `callboard schedule add {found.name}` makes another.",
            field="name",
        )
    return found


def _say_problems(rows: list[ScheduleRow]) -> None:
    for row in rows:
        if row.problem:
            print(f"{row.name} does not fire: {safe_line(row.problem)}", file=sys.stderr)


def _cells(row: ScheduleRow) -> tuple[str, ...]:
    when = row.cron or (f"every {row.every}" if row.every else f"once {row.at}")
    planned = _time(row, row.next_at_ms[0]) if row.next_at_ms else "over"
    last = "" if row.last is None else f"{_time(row, row.last.at_ms)} {row.last.state}"
    return (
        row.name,
        when if row.every else f"{when} {row.zone}",
        "paused" if row.paused else planned,
        last,
        row.agent,
        safe_line(row.prompt)[:60],
    )


def _firing_cells(row: ScheduleRow, firing: Firing) -> tuple[str, ...]:
    why = f": {safe_line(firing.message)}" if firing.message else ""
    asked = "" if firing.planned_at_ms is not None else " (asked for)"
    return f"{_time(row, firing.at_ms)}{asked}", firing.session_id, f"{firing.state}{why}"


def _time(row: ScheduleRow, at_ms: int) -> str:
    """Return a time in the zone of a schedule, or of this machine when it has none, as `2027-01-31 09:00 CET`."""
    if row.every is None:
        return local_minute(row.zone, at_ms)
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M %Z}"
