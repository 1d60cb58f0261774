"""What `callboard models` does: lists models, and keeps the default."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec
import trio

from ..config.base_url import origin
from ..config.files import config_file, load_own_settings, load_settings
from ..config.managed import set_default_model
from ..config.settings import Settings
from ..models import with_keys
from ..providers.catalog import Wish
from ..providers.known_providers import KNOWN, KnownProvider
from ..providers.model_cache import ModelCache
from ..providers.model_services import ModelList, ModelServices, ModelSource, OfferedModel
from ..providers.provider_keys import has_environment_key
from ..providers.provider_table import (
    REHEARSAL,
    provider_named,
    providers_of,
)
from ..runtime.core_dumps import forbid_core_dumps
from ..runtime.errors import CallboardError, NetworkError, NotFoundError, ValidationError
from ..runtime.http import open_http_client
from ..runtime.identity import now_ms
from .complaint import complain
from .escaping import safe_line, shortened
from .exit_codes import ANSWERED
from .json_lines import json_line

MAX_TITLE_CHARS = 40
"""A line of a usual terminal holds it beside the other columns."""
OLD_DAYS = 7.0
"""A list that is older is said to be."""
MS_PER_DAY = 86_400_000


class DefaultLine(msgspec.Struct, frozen=True):
    """What `callboard models default --json` prints.

    Attributes:
        model: The default `PROVIDER/MODEL`, or `None` when none was chosen.
        source: `callboard.toml` or `managed`; `None` without one.
    """

    model: str | None
    source: str | None


def show_models(
    config: Path | None, data: Path, provider: str | None, *, refresh: bool, json: bool
) -> int:
    """Lists the models of one provider, or of all that can be asked."""
    forbid_core_dumps()
    settings = load_settings(config)
    if provider is not None and provider != REHEARSAL:
        provider_named(settings, provider)
    return trio.run(partial(_show, settings, data, provider, refresh=refresh, json=json))


class DefaultModel:
    """The default model of a configuration; each method gives its exit code."""

    def __init__(self, config: Path | None, data: Path, *, json: bool) -> None:
        self._config = config
        self._data = data
        self._json = json

    def show(self) -> int:
        """Says what it is."""
        line = self._line()
        if self._json:
            sys.stdout.write(json_line(line))
        elif line.model is None:
            print("No default model was chosen: `callboard models default PROVIDER/MODEL` does.")
        else:
            print(f"{safe_line(line.model)}  ({line.source})")
        return ANSWERED

    def set(self, choice: str | None) -> int:
        """Chooses another one, or takes it back."""
        settings = load_settings(self._config)
        if choice is not None:
            _check_choice(settings, choice)
        set_default_model(config_file(self._config).parent, choice)
        line = self._line()
        if line.model != choice:
            complain(
                f"{config_file(self._config)} says model = {line.model!r}, which wins: change it "
                "there."
            )
        if self._json:
            sys.stdout.write(json_line(line))
        else:
            print(f"The default model is {choice}." if choice else "There is no default model.")
        if choice is not None:
            self._warn_of_unlisted(settings, choice)
        return ANSWERED

    def _line(self) -> DefaultLine:
        model = load_settings(self._config).model
        if model is None:
            return DefaultLine(None, None)
        is_own = load_own_settings(self._config).model is not None
        return DefaultLine(model, "callboard.toml" if is_own else "managed")

    def _warn_of_unlisted(self, settings: Settings, choice: str) -> None:
        """Lists change, and some servers give none: it is no mistake for sure."""
        name, _, model = choice.partition("/")
        if name == REHEARSAL:
            return
        found = ModelCache(self._data).load(provider_named(settings, name))
        if found is not None and all(listed.model != model for listed in found.models):
            complain(
                f"{name} did not list {model} when it was asked last: `callboard models {name} "
                "--refresh` asks it again."
            )


def _check_choice(settings: Settings, choice: str) -> None:
    name, _, model = choice.partition("/")
    if name == REHEARSAL:
        if model != REHEARSAL:
            raise NotFoundError(f"Write {REHEARSAL}/{REHEARSAL}: it is the only model of its kind.")
        return
    provider_named(settings, name)
    if not model:
        raise ValidationError(
            f"{choice!r} names no model: write {name}/MODEL. `callboard models {name}` lists them.",
            field="model",
        )
    if name in settings.inactive:
        raise ValidationError(
            f"The provider {name} is deactivated: `callboard providers activate {name}` first.",
            field="model",
        )


async def _show(
    settings: Settings, data: Path, provider: str | None, *, refresh: bool, json: bool
) -> int:
    wish = with_keys(Wish(settings=settings, environ=os.environ), data)
    async with open_http_client() as http:
        services = ModelServices(wish, http, ModelCache(data))
        if provider is not None:
            if provider in settings.inactive:
                complain(
                    f"{provider} is inactive: `callboard providers activate {provider}` lets it "
                    "be used."
                )
            _print(await services.list_models(provider, refresh=refresh), json=json)
            return ANSWERED
        names = _askable(wish)
        for name, found in (await _ask_all(services, names, refresh)).items():
            if isinstance(found, ModelList):
                _print(found, json=json)
            elif not (isinstance(found, NetworkError) and _is_optional(settings, name)):
                complain(_about(name, str(found)))
    return ANSWERED


async def _ask_all(
    services: ModelServices, names: Sequence[str], refresh: bool
) -> dict[str, ModelList | CallboardError]:
    """What became of each, all of them side by side."""
    found: dict[str, ModelList | CallboardError] = {}

    async def ask(name: str) -> None:
        try:
            found[name] = await services.list_models(name, refresh=refresh)
        except CallboardError as error:
            found[name] = error

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(ask, name, name=f"models of {name}")
    return {name: found[name] for name in names}


def _askable(wish: Wish) -> list[str]:
    """The providers that are active, and have a key or want none."""

    def has_key(its: KnownProvider) -> bool:
        is_set = has_environment_key(its.variable(wish.environ), wish.environ)
        return is_set or origin(its.base_url) in wish.stored_places(its.name)

    providers = providers_of(wish.settings).values()
    active = [its for its in providers if its.name not in wish.settings.inactive]
    askable = [its.name for its in active if has_key(its) or not its.key_required]
    return [*askable, REHEARSAL]


def _is_optional(settings: Settings, name: str) -> bool:
    """Whether nobody said that there is such a server: it is looked for on this machine."""
    return name in KNOWN and name not in settings.providers and not KNOWN[name].key_required


def _print(found: ModelList, *, json: bool) -> None:
    for model in found.models:
        sys.stdout.write(json_line(model) if json else _row(model))
    if found.problem:
        complain(_about(found.provider, f"{found.problem}{_instead(found)}"))
    elif found.is_cached and found.listed_at_ms is not None:
        age_days = (now_ms() - found.listed_at_ms) / MS_PER_DAY
        if age_days > OLD_DAYS:
            complain(f"{found.provider} listed these on {_day(found)}: --refresh asks it again.")


def _about(name: str, said: str) -> str:
    """What is said of a provider, with its name once."""
    return said if said.startswith(f"{name} ") else f"{name}: {said}"


def _instead(found: ModelList) -> str:
    """What is shown when the provider could not be asked."""
    if found.listed_at_ms is None:
        return " These are the models that callboard knows of."
    return f" These are the models of {_day(found)}." if found.is_cached else ""


def _day(found: ModelList) -> str:
    return f"{datetime.fromtimestamp((found.listed_at_ms or 0) / 1000).astimezone():%Y-%m-%d}"


def _row(model: OfferedModel) -> str:
    reads = _tokens(model.context_tokens)
    writes = _tokens(model.max_output_tokens)
    title = shortened(safe_line(model.title), MAX_TITLE_CHARS)
    source = "" if model.source is ModelSource.LISTED else f"  ({model.source.replace('_', '-')})"
    return f"{safe_line(model.choice):44}  {reads:>6} in  {writes:>6} out  {title}{source}\n"


def _tokens(count: int | None) -> str:
    """`400k`, `1.05M`, or `-` for what is not known."""
    if count is None:
        return "-"
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{round(count / 1000)}k"
