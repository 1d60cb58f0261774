"""Finding a provider by name or by base URL, among built-in and configured ones. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from ...config.base_url import checked_base_url, origin
from ...config.search_engines import KNOWN_ENGINES
from ...config.settings import DialectName, ProviderSettings, Settings
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.redaction import Secret, redactor
from ...runtime.text import did_you_mean
from .known import KNOWN, KNOWN_MODELS, KnownProvider

REHEARSAL = "rehearsal"
CUSTOM = "custom"
"""The provider of `--base-url`, if it has no known provider's origin."""

CUSTOM_KEY = "CALLBOARD_API_KEY"

_SURE, _HALF = 0.9, 0.6
"""How like a name must be to that of a model, and the word that it begins with to that of a family."""


def providers_of(settings: Settings) -> dict[str, KnownProvider]:
    """Return every provider by name; a configured one hides the built-in one of its name."""
    return {name: _configured(its) for name, its in settings.providers.items()} | {
        name: known for name, known in KNOWN.items() if name not in settings.providers
    }


def key_variables(settings: Settings) -> set[str]:
    """Return the names of the environment variables that may have a provider's key."""
    variables = {CUSTOM_KEY}
    for its in (*KNOWN.values(), *providers_of(settings).values()):
        variables |= {name for name in (its.key_env, its.other_key_env) if name is not None}
    return variables


def mask_environment_keys(settings: Settings, environ: Mapping[str, str]) -> None:
    """Mask the keys of all providers and search engines, used or not."""
    engines = {engine.key_env for engine in KNOWN_ENGINES.values()}
    for variable in key_variables(settings) | engines:
        redactor.add(Secret(environ.get(variable, "").strip()))


def provider_named(settings: Settings, name: str) -> KnownProvider:
    """Return the provider of that name, or raise `NotFoundError`."""
    if name == REHEARSAL:
        raise NotFoundError(
            f"{REHEARSAL} is the model in this process: it has no URL and no key, and is always "
            "there."
        )
    if "/" in name:
        raise NotFoundError(
            f"{name!r} is a model, and here a provider is wanted: write {name.partition('/')[0]} "
            "alone."
        )
    provider = providers_of(settings).get(name)
    if provider is None:
        raise unknown_provider(settings, f"{name}/MODEL")
    return provider


def check_provider(settings: Settings, choice: str) -> None:
    """Raise `NotFoundError` if the provider of a `PROVIDER/MODEL` does not exist."""
    name = choice.partition("/")[0]
    if name not in {REHEARSAL, CUSTOM}:
        provider_named(settings, name)


def provider_at(settings: Settings, base_url: str, dialect: str | None = None) -> KnownProvider:
    """Return the known provider of the URL's origin, at that URL, else the custom one."""
    try:
        url = checked_base_url(base_url)
    except ValueError as exc:
        raise ValidationError(f"--base-url: {exc}.", field="base_url") from exc
    chosen = _dialect_named(dialect)
    for known in providers_of(settings).values():
        if origin(known.base_url) == origin(url):
            its = chosen or _dialect_at(known, url)
            return msgspec.structs.replace(known, base_url=url, dialect=its)
    return KnownProvider(
        name=CUSTOM,
        base_url=url,
        dialect=chosen or DialectName.OPENAI_CHAT,
        key_env=CUSTOM_KEY,
        key_required=False,
    )


def unknown_provider(settings: Settings, text: str) -> NotFoundError:
    """Return the error for a `PROVIDER/MODEL`, or one word, that names no provider."""
    name, slash, _ = text.partition("/")
    names = ", ".join([*providers_of(settings), REHEARSAL])
    if name == CUSTOM:
        return NotFoundError(
            f"{text!r} is the model of a --base-url: give that URL again, or pass --model."
        )
    if not slash:
        like = model_like(text)
        close = f' Did you mean "{like}"?' if like else ""
        close = close or did_you_mean(text, [*providers_of(settings), REHEARSAL])
        return NotFoundError(
            f"{text!r} is not a provider, and no server on this machine has a model of that name.{close} "
            f"Write PROVIDER/MODEL. Providers: {names}."
        )
    return NotFoundError(
        f"There is no provider {name!r}.{did_you_mean(name, names.split(', '))} Providers: {names}. Others are added with `callboard "
        f"providers add`, or reached with --base-url."
    )


def model_like(text: str) -> str | None:
    """Return the `PROVIDER/MODEL` that a name without its provider may mean: `openai/gpt-5` for `gpt5`."""
    from difflib import get_close_matches  # few names are wrong

    known = {
        each.model: f"{place}/{each.model}" for place, its in KNOWN_MODELS.items() for each in its
    }
    families = {
        _family_of(model): choice.partition("/")[0] for model, choice in reversed(known.items())
    }
    if found := get_close_matches(text, known, 1, _SURE):
        return known[found[0]]
    word = text.rstrip("0123456789.") if "-" not in text else _family_of(text)
    version = text.removeprefix(word).removeprefix("-")
    near = get_close_matches(word.lower(), families, 1, _HALF)
    if not near:
        return None
    if version[:1].isdigit():  # one that is not listed here: there are older and newer ones
        return f"{families[near[0]]}/{near[0]}-{version}"
    its = [model for model in known if _family_of(model) == near[0]]
    return known[get_close_matches(text, its, 1, 0.0)[0]]


def _family_of(model: str) -> str:
    """Return `gpt` of `gpt-5`, by which a model without its provider is known."""
    return model.partition("-")[0]


def _configured(settings: ProviderSettings) -> KnownProvider:
    there = (known for known in KNOWN.values() if known.base_url == settings.base_url)
    twin = next(there, None)
    namesake = KNOWN.get(settings.name)
    like = twin or namesake
    its = _dialect_at(like, settings.base_url) if like is not None else DialectName.OPENAI_CHAT
    model = settings.model or next(iter(settings.models), None)
    key_env, other_key_env, is_required = settings.key_env, None, settings.key_env is not None
    if twin is not None and twin.key_env == key_env:
        other_key_env, is_required = twin.other_key_env, twin.key_required
    return KnownProvider(
        name=settings.name,
        base_url=settings.base_url,
        dialect=settings.dialect or its,
        key_env=key_env,
        other_key_env=other_key_env,
        key_required=is_required,
        model=model or (namesake.model if namesake is not None else None),
        models=settings.models,
        hidden=namesake,
    )


def _dialect_named(name: str | None) -> DialectName | None:
    try:
        return DialectName(name) if name is not None else None
    except ValueError:
        known = ", ".join(DialectName)
        raise ValidationError(
            f"there is no wire format {name!r}; there are: {known}", field="dialect"
        ) from None


def _dialect_at(known: KnownProvider, url: str) -> DialectName:
    """Return the wire format at another URL of a provider's origin."""
    # Several (Google, Groq) serve OpenAI's format below a path that says so.
    is_openai = "openai" in urlsplit(url).path.split("/")
    return DialectName.OPENAI_CHAT if is_openai else known.dialect
