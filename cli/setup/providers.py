"""`callboard providers`: lists providers, adds, changes, removes and tests them.

Each says what was done, and what is left to do. When a daemon runs it does the work, with its own
configuration, keys and environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
from cyclopts import App, Parameter

from ...config.files import load_settings
from ...providers.catalog.book import ProviderBook
from ...providers.catalog.catalog import ModelSelection, find_provider
from ...providers.catalog.known import KNOWN
from ...providers.catalog.table import REHEARSAL
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import ValidationError
from ...runtime.redaction import redact
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import (
    ChangeProvider,
    NewProvider,
    ProviderChanged,
    ProviderRow,
    Providers,
)
from ..backend import FileBackend, ask_daemon, serving_daemon
from ..exit_codes import ANSWERED, FAILED
from ..hints import runnable
from ..parameters import Config, Data, DialectOption, Json, data_path, offered
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list

if TYPE_CHECKING:
    from ...client.client import Client
    from ...providers.catalog.connection_test import ConnectionReport

ProviderName = Annotated[
    str,
    Parameter(completer=offered("providers"), help="The provider's name, as in PROVIDER/MODEL."),
]
BaseUrl = Annotated[
    str, Parameter(help="Everything before the wire format's own path; often it ends in /v1.")
]
NewBaseUrl = Annotated[str | None, Parameter(help="Another base URL.")]
KeyEnv = Annotated[
    str | None, Parameter(help="The NAME of the environment variable of its key; '' takes it back.")
]
OwnModel = Annotated[
    str | None, Parameter(help="Its model when only the provider is named; '' takes it back.")
]
OwnModels = Annotated[
    str | None,
    Parameter(help="Models that it does not list, separated by commas; '' takes them back."),
]
Asked = Annotated[str | None, Parameter(help="The model to ask; by default the provider's.")]

providers = App(
    name="providers", help="List, test, add, change, remove and switch off providers of models."
)


@providers.default
def list_providers(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List the providers: where they are, whether they have a key, where they come from."""
    found = open_providers(config, data_path(data)).ask(
        lambda client: client.request("provider/list", Nothing(), Providers),
        lambda book: book.providers(),
    )
    if json:
        sys.stdout.writelines(map(_line, found.providers))
    else:
        heads = ("provider", "dialect", "key", "from", "address")
        write_list(heads, map(_cells, found.providers))
    if found.problem:
        complain(found.problem)
    return ANSWERED


@providers.command
def add(
    name: ProviderName,
    /,
    *,
    base_url: BaseUrl,
    dialect: DialectOption = None,
    key_env: KeyEnv = None,
    model: OwnModel = None,
    models: OwnModels = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Add a provider: any server that speaks one of the wire formats.

    Its key is stored with `callboard keys set NAME`, or named with --key-env; it is never an
    option.
    """
    fields = _fields(
        base_url=base_url, dialect=dialect, key_env=key_env, model=model, models=models
    )
    new = NewProvider(name=name, **fields)  # type: ignore[arg-type]
    changed = open_providers(config, data_path(data)).ask(
        lambda client: client.request("provider/create", new, ProviderChanged),
        lambda book: book.create(new),
    )
    return _report(f"Added {name}.", changed, json=json)


@providers.command
def edit(
    name: ProviderName,
    /,
    *,
    base_url: NewBaseUrl = None,
    dialect: DialectOption = None,
    key_env: KeyEnv = None,
    model: OwnModel = None,
    models: OwnModels = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Change a provider that was added, or one that is built in; the rest of it stays."""
    fields = _fields(
        base_url=base_url, dialect=dialect, key_env=key_env, model=model, models=models
    )
    if not fields:
        raise ValidationError(
            f"Nothing of {name} was changed: say what, for example --model MODEL."
        )
    change = ChangeProvider(provider=name, **fields)  # type: ignore[arg-type]
    changed = _update(config, data, change)
    return _report(f"Changed {name}.", changed, json=json, wants_key=not changed.notes)


@providers.command(name="remove")
def remove_provider(
    name: ProviderName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Remove a provider that was added; what was changed of a built-in one is as before."""
    changed = open_providers(config, data_path(data)).ask(
        lambda client: client.providers.delete(name), lambda book: book.delete(name)
    )
    done = f"{name} is as it was built in." if name in KNOWN else f"Removed {name}."
    return _report(done, changed, json=json, wants_key=False)


@providers.command
def activate(
    name: ProviderName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Use a provider again."""
    changed = _update(config, data, ChangeProvider(provider=name, is_active=True))
    return _report(f"Activated {name}.", changed, json=json)


@providers.command
def deactivate(
    name: ProviderName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Stop using a provider; it keeps its key and its settings."""
    changed = _update(config, data, ChangeProvider(provider=name, is_active=False))
    return _report(f"Deactivated {name}.", changed, json=json, wants_key=False)


def _update(config: Path | None, data: Path | None, change: ChangeProvider) -> ProviderChanged:
    return open_providers(config, data_path(data)).ask(
        lambda client: client.request("provider/update", change, ProviderChanged),
        lambda book: book.update(change),
    )


@providers.command(name="test")
def try_provider(
    name: ProviderName,
    /,
    *,
    model: Asked = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Test a provider, ten seconds at most; says what fails: DNS, TLS, key, model, quota.

    A model is asked for a word, which costs some tokens. Exits with 1 when it does not work.
    """
    from ...embedding.models import with_keys  # here: no other command of these connects
    from ...providers.catalog.connection_test import try_connection

    forbid_core_dumps()
    choice = model.removeprefix(f"{name}/") if model is not None else None
    if name == REHEARSAL:
        load_settings(config)
        print("rehearsal works: it is built in, and needs no connection.")
        return ANSWERED
    folder = data_path(data)
    if (daemon := serving_daemon(config, folder)) is not None:

        async def test(client: Client) -> tuple[bool, ConnectionReport]:
            report = await client.providers.test(name, model=choice)
            rows = await client.providers.list()
            return all(row.is_active for row in rows if row.name == name), report

        is_active, report = ask_daemon(daemon, test)
    else:
        settings = load_settings(config)
        wish = with_keys(ModelSelection(settings=settings, environ=os.environ), folder)
        report = trio.run(try_connection, find_provider(wish, name), wish, choice)
        is_active = name not in settings.inactive
    if not is_active:
        complain(f"{name} is inactive: `callboard providers activate {name}` lets it be used.")
    if json:
        sys.stdout.write(json_line(report))
    elif report.works:
        print(safe_line(redact(report.message)))
    else:
        complain(f"{name} ({report.fault}): {report.message}")
    return ANSWERED if report.works else FAILED


def open_providers(config: Path | None, data: Path) -> FileBackend[ProviderBook]:
    """Return where providers are listed and changed: the daemon, or the files."""
    return FileBackend(serving_daemon(config, data), lambda: ProviderBook(config, data, os.environ))


def _report(text: str, changed: ProviderChanged, *, json: bool, wants_key: bool = True) -> int:
    """Print what was done, and how to give the provider a key where that is the next step."""
    for note in changed.notes:
        complain(note)
    row = changed.provider
    if json:
        if row is not None:
            sys.stdout.write(_line(row))
        return ANSWERED
    print(text)
    if row is None or not wants_key:
        return ANSWERED
    if row.note:
        complain(row.note)
    elif row.key == "missing":
        variable = f", or set {row.key_env}" if row.key_env is not None else ""
        print(runnable(f"It has no key yet: `callboard keys set {row.name}`{variable}."))
    return ANSWERED


def _fields(**changes: str | None) -> dict[str, str | tuple[str, ...]]:
    """Return the fields that the options set."""
    fields: dict[str, str | tuple[str, ...]] = {
        field: text for field, text in changes.items() if text is not None
    }
    if fields.get("base_url") == "":
        raise ValidationError("--base-url is empty: say where the server is.", field="base_url")
    if (models := changes.get("models")) is not None:
        fields["models"] = tuple(each.strip() for each in models.split(",") if each.strip())
    return fields


def _line(row: ProviderRow) -> str:
    """Return the row as a line of JSON, in which `is_active` has its older name."""
    fields = msgspec.structs.asdict(row)
    return json_line({"active" if n == "is_active" else n: value for n, value in fields.items()})


def _cells(row: ProviderRow) -> tuple[str, ...]:
    key = f"${row.key_env}" if row.key == "environment" else row.key.replace("none", "no key")
    source = row.source.replace("_", "-")
    note = "" if row.is_active else "  (inactive)"
    note += f"  ({row.note.rstrip('.')})" if row.note else ""
    url = safe_line(row.base_url)
    return row.name, row.dialect, key, source, f"{url}{note}"
