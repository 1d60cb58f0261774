"""How tests read a command line: as a process of the command does, and the quicker for what was read before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from cyclopts import CycloptsError
from cyclopts.argument import ArgumentCollection, _argument

from callboard.cli import app


def without_pydantic() -> None:
    """Has no option checked by pydantic as well, which cyclopts does where it finds that imported.

    A command imports it for MCP at most, long after its line was read; tests have it from the beginning. To make
    a validator for each option takes a third of the time of reading a line.
    """
    reader: Any = _argument
    reader.sys = SimpleNamespace(modules=())


def prepare(commands: Iterable[str]) -> None:
    """Gathers the options of commands for the next line that is read, in a process that will be forked."""
    make: Callable[..., ArgumentCollection] = ArgumentCollection._from_callable
    prepared: dict[Any, ArgumentCollection] = {}

    def key(arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return arguments, tuple(sorted(options.items()))

    def gather(*arguments: Any, reserved: Iterable[str] = (), **options: Any) -> ArgumentCollection:
        options["reserved"] = tuple(reserved)
        if options.get("_resolve_groups", True):
            prepared[key(arguments, options)] = make(*arguments, **options)  # reading changes it
        return make(*arguments, **options)

    def take(*arguments: Any, reserved: Iterable[str] = (), **options: Any) -> ArgumentCollection:
        options["reserved"] = tuple(reserved)
        ready = prepared.pop(key(arguments, options), None)
        return make(*arguments, **options) if ready is None else ready

    parser: Any = ArgumentCollection
    parser._from_callable = gather
    for command in commands:
        with suppress(CycloptsError):  # it wants arguments
            app._app(command).parse_args([command], print_error=False, exit_on_error=False)
    parser._from_callable = take
