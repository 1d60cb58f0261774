"""`callboard models`: lists models, and keeps the default."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import trio
from cyclopts import App, Parameter

from ...config.files import load_settings
from ...embedding.models import with_keys
from ...providers.catalog.book import ProviderBook
from ...providers.catalog.cache import ModelCache
from ...providers.catalog.catalog import ModelSelection
from ...providers.catalog.known import KNOWN
from ...providers.catalog.services import ModelServices
from ...providers.catalog.table import REHEARSAL
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import CallboardError, NetworkError, NotFoundError
from ...runtime.http.client import open_http_client
from ...runtime.identity import now_ms
from ...runtime.text import did_you_mean
from ...runtime.wire.providers import ModelList, ModelSource, OfferedModel, ProviderRow
from ..backend import connected, serving_daemon
from ..exit_codes import ANSWERED
from ..hints import runnable
from ..parameters import Config, Data, Json, data_path
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line, shortened
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from .providers import open_providers

MAX_TITLE_CHARS = 40
"""Titles are cut here, so that a line fits a usual terminal."""
OLD_DAYS = 7.0
"""Age of a list from which it is mentioned."""
MS_PER_DAY = 86_400_000


class ModelLister(Protocol):
    """Lists the models of a provider; raises a `CallboardError`."""

    async def __call__(self, provider: str, *, refresh: bool = False) -> ModelList:
        """Ask the provider for them to `refresh`; otherwise return what it listed last."""
        ...


OfProvider = Annotated[str | None, Parameter(help="Only this provider's, as in PROVIDER/MODEL.")]
Refresh = Annotated[
    bool,
    Parameter(
        help="Ask the providers, instead of using the lists that they gave before.", negative=()
    ),
]
ModelChoice = Annotated[str | None, Parameter(help="PROVIDER/MODEL; without it, shows what holds.")]
Unset = Annotated[bool, Parameter(help="Take the default back.", negative=())]

models = App(name="models", help="List the models of providers, and choose the default.")


@models.default
def list_models(
    provider: OfProvider = None,
    /,
    *,
    refresh: Refresh = False,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """List models: of one provider, or of all that can be asked."""
    forbid_core_dumps()
    return trio.run(partial(_show, config, data_path(data), provider, refresh=refresh, json=json))


@models.command(name="default")
def set_default(
    choice: ModelChoice = None,
    /,
    *,
    unset: Unset = False,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Choose the model that answers when nothing else names one."""
    backend = open_providers(config, data_path(data))
    changes, wanted = unset or choice is not None, None if unset else choice
    chosen = (
        backend.ask(lambda client: client.models.choose(wanted), lambda book: book.choose(wanted))
        if changes
        else backend.ask(lambda client: client.models.chosen(), lambda book: book.default())
    )
    for note in chosen.notes if changes else ():
        complain(note)
    if json:
        sys.stdout.write(json_line({"model": chosen.model, "source": chosen.source}))
    elif changes:
        print(f"The default model is {wanted}." if wanted else "There is no default model.")
    elif chosen.model is None:
        print(
            runnable("No default model was chosen: `callboard models default PROVIDER/MODEL` does.")
        )
    else:
        print(f"{safe_line(chosen.model)}  ({chosen.source})")
    return ANSWERED


async def _show(
    config: Path | None, data: Path, provider: str | None, *, refresh: bool, json: bool
) -> int:
    async with _open(config, data) as (list_models, rows):
        if provider is not None:
            if provider not in {row.name for row in rows} and did_you_mean(provider, ["default"]):
                raise NotFoundError(
                    f"There is no provider {provider!r}. Did you mean `callboard models default`?"
                )
            if any(row.name == provider and not row.is_active for row in rows):
                complain(
                    f"{provider} is inactive: `callboard providers activate {provider}` lets it be used."
                )
            _print(await list_models(provider, refresh=refresh), json=json)
            return ANSWERED
        names = [row.name for row in rows if row.is_active and row.key != "missing"]
        optional = {row.name for row in rows if _is_optional(row)}
        for name, found in (await _ask_all(list_models, [*names, REHEARSAL], refresh)).items():
            if isinstance(found, ModelList):
                _print(found, json=json)
            elif not (isinstance(found, NetworkError) and name in optional):
                complain(_about(name, str(found)))
    return ANSWERED


@asynccontextmanager
async def _open(
    config: Path | None, data: Path
) -> AsyncGenerator[tuple[ModelLister, Sequence[ProviderRow]]]:
    """Give a function that lists models, and the providers, for the block."""
    if (daemon := serving_daemon(config, data)) is not None:
        async with connected(daemon) as client:
            yield client.models.list, await client.providers.list()
        return
    settings = load_settings(config)
    wish = with_keys(ModelSelection(settings=settings, environ=os.environ), data)
    rows = ProviderBook(config, data, os.environ).providers().providers
    async with open_http_client() as http:
        yield ModelServices(wish, http, ModelCache(data)).list_models, rows


async def _ask_all(
    list_models: ModelLister, names: Sequence[str], refresh: bool
) -> dict[str, ModelList | CallboardError]:
    """Ask all providers at once; return the list or the error of each."""
    found: dict[str, ModelList | CallboardError] = {}

    async def ask(name: str) -> None:
        try:
            found[name] = await list_models(name, refresh=refresh)
        except CallboardError as error:
            found[name] = error

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(ask, name, name=f"models of {name}")
    return {name: found[name] for name in names}


def _is_optional(row: ProviderRow) -> bool:
    """Return whether the provider is a local server that is only looked for."""
    return row.source == "built_in" and not KNOWN[row.name].key_required


def _print(found: ModelList, *, json: bool) -> None:
    if json:
        sys.stdout.writelines(map(json_line, found.models))
    else:
        heads = ("model", ">context", ">answer", "title")
        write_list(heads, map(_cells, found.models))
    if found.problem:
        complain(_about(found.provider, f"{found.problem}{_instead(found)}"))
    elif found.is_cached and found.listed_at_ms is not None:
        age_days = (now_ms() - found.listed_at_ms) / MS_PER_DAY
        if age_days > OLD_DAYS:
            complain(f"{found.provider} listed these on {_day(found)}: --refresh asks it again.")


def _about(name: str, said: str) -> str:
    """Return a message about a provider, with its name once."""
    return said if said.startswith(f"{name} ") else f"{name}: {said}"


def _instead(found: ModelList) -> str:
    """Return what is listed instead, when the provider could not be asked."""
    if found.listed_at_ms is None:
        return " These are the models that callboard knows of."
    return f" These are the models of {_day(found)}." if found.is_cached else ""


def _day(found: ModelList) -> str:
    return f"{datetime.fromtimestamp((found.listed_at_ms or 0) / 1000).astimezone():%Y-%m-%d}"


def _cells(model: OfferedModel) -> tuple[str, ...]:
    reads = _tokens(model.context_tokens)
    writes = _tokens(model.max_output_tokens)
    title = shortened(safe_line(model.title), MAX_TITLE_CHARS)
    source = "" if model.source is ModelSource.LISTED else f"  ({model.source.replace('_', '-')})"
    return safe_line(model.choice), reads, writes, f"{title}{source}"


def _tokens(count: int | None) -> str:
    """`400k`, `1.05M`, or `-` for what is not known."""
    if count is None:
        return "-"
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{round(count / 1000)}k"
