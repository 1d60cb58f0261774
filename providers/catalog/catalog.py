"""Which model a session gets: pure decisions, no I/O.

The order: what the command names, what the agent prefers, what the configuration says, the first
provider with a key, a server on this machine, and last the built-in rehearsal model. A decision
that depends on what servers offer is made in two steps: `servers_to_ask` names them, the caller
fetches their lists of models, and `resolve_model` decides.

A key goes only to the origin it belongs to, and in clear text only to this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...config.base_url import origin
from ...config.settings import Settings
from ...runtime.definitions import Agent
from ...runtime.errors import AuthError, NotFoundError, ValidationError
from ...runtime.redaction import Secret
from ..dialects import dialect_at
from ..provider import Endpoint
from .keys import (
    StoredKeys,
    StoredPlaces,
    check_key_may_travel,
    find_key,
    has_environment_key,
    no_stored_keys,
    no_stored_places,
)
from .known import KEY_ORDER, LOCAL_ORDER, KnownProvider
from .table import (
    REHEARSAL,
    provider_at,
    provider_named,
    providers_of,
    unknown_provider,
)

MAX_LISTED_MODELS = 20
"""How many models an error names: a screen of them; OpenRouter has hundreds."""

BY_DEFAULT = "because it is the configured default"

Listed = Mapping[str, Sequence[str] | None]
"""Model ids by base URL; `None` where nothing answered."""


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that a session gets.

    Attributes:
        provider: The provider's name.
        model: The model's id at its provider.
        endpoint: Where it is; `None` for the rehearsal model, which is in this process.
        reason: Why this one, for a person: "because OPENAI_API_KEY is set".
    """

    provider: str
    model: str
    endpoint: Endpoint | None
    reason: str

    @property
    def choice(self) -> str:
        """`PROVIDER/MODEL`."""
        return f"{self.provider}/{self.model}"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about a model, from the strongest to the weakest.

    Attributes:
        choice: `--model`: `PROVIDER/MODEL`, or a provider's name alone.
        base_url: `--base-url`: any compatible server; `choice` is then the model's id there.
        dialect: `--dialect`: the wire format of that server; else the one of the provider whose
            origin it has, else Chat Completions.
        agent: The session's agent, whose preference counts next.
        settings: The configuration.
        environ: The environment, for keys.
        stored: Where a key is looked for that the environment does not hold.
        stored_places: Tells which origins have a stored key of a provider, when one is missing.
    """

    environ: Mapping[str, str]
    stored: StoredKeys = no_stored_keys
    stored_places: StoredPlaces = no_stored_places
    choice: str | None = None
    base_url: str | None = None
    dialect: str | None = None
    agent: Agent | None = None
    settings: Settings = Settings()

    def __post_init__(self) -> None:
        if self.dialect is not None and self.base_url is None:
            raise ValidationError(
                "dialect goes with base_url: a provider has its own", field="dialect"
            )


def servers_to_ask(wish: Wish) -> tuple[Endpoint, ...]:
    """The servers whose lists of models `resolve_model` wants; usually none.

    The caller asks each one at `base_url` + `/models`, takes one that does not answer soon for
    absent, and passes the ids on by `base_url`.

    Raises:
        CallboardError: As `resolve_model`.
    """
    if wish.base_url is not None:
        provider = provider_at(wish.settings, wish.base_url, wish.dialect)
        if wish.choice or provider.model:
            return ()
        return (endpoint_of(_active(provider, wish), wish),)
    named = _named(wish)
    if named is None:
        return () if _with_key(wish) else _local(wish)
    text, _ = named
    name, _, model = text.partition("/")
    if model or name == REHEARSAL:
        return ()
    known = providers_of(wish.settings).get(name)
    if known is None:
        return _local(wish)
    return () if known.model else (endpoint_of(_active(known, wish), wish),)


def resolve_model(wish: Wish, listed: Listed | None = None) -> ResolvedModel:
    """Decides which model a session gets.

    Args:
        wish: What was asked for, and the surroundings.
        listed: Model ids by base URL, of the servers of `servers_to_ask`.

    Raises:
        NotFoundError: The provider or model does not exist; lists those that do.
        AuthError: Its key is missing or broken, or would travel in clear text.
        ValidationError: The base URL is none, or no model is named and the server lists none.
    """
    listed = listed or {}
    if wish.base_url is not None:
        return _at_base_url(wish, wish.base_url, listed)
    named = _named(wish)
    if named is not None:
        return _by_name(wish, *named, listed)
    provider = _with_key(wish)
    if provider is not None and provider.model is not None:
        variable = provider.variable(wish.environ)
        is_set = has_environment_key(variable, wish.environ)
        why = f"{variable} is set" if is_set else f"a key is stored for {provider.name}"
        return _resolved(wish, provider, provider.model, f"because {why}")
    for endpoint in _local(wish):
        model = first_chat_model(listed.get(endpoint.base_url))
        if model is not None:
            reason = f"because a server answers at {endpoint.base_url}"
            return ResolvedModel(
                provider=endpoint.name, model=model, endpoint=endpoint, reason=reason
            )
    return _rehearsal("because no model is configured")


def find_provider(wish: Wish, name: str) -> KnownProvider:
    """The provider of that name: built in, configured, or the one of `--base-url`.

    It may be inactive: it can be asked for its models and be tested.

    Raises:
        NotFoundError: There is none; lists those that exist.
    """
    if wish.base_url is not None:
        there = provider_at(wish.settings, wish.base_url, wish.dialect)
        if there.name == name:
            return there
    return provider_named(wish.settings, name)


def unknown_model(provider: str, model: str, available: Sequence[str]) -> NotFoundError:
    """The error for a model that its provider does not have."""
    names = sorted(available)
    shown = ", ".join(names[:MAX_LISTED_MODELS])
    more = f" and {len(names) - MAX_LISTED_MODELS} more" if len(names) > MAX_LISTED_MODELS else ""
    lists = f"It has: {shown}{more}." if names else "It lists no models."
    return NotFoundError(f"{provider} has no model {model!r}. {lists}")


def _named(wish: Wish) -> tuple[str, str] | None:
    """The strongest name of a model with the reason for it."""
    if wish.choice:
        return wish.choice, "because --model says so"
    if wish.agent is not None and wish.agent.model:
        return wish.agent.model, f"because agent {wish.agent.name!r} prefers it"
    if wish.settings.model:
        return wish.settings.model, BY_DEFAULT
    return None


def _by_name(wish: Wish, text: str, reason: str, listed: Listed) -> ResolvedModel:
    name, slash, model = text.partition("/")
    if name == REHEARSAL:
        if model in {"", REHEARSAL}:
            return _rehearsal(reason)
        raise unknown_model(REHEARSAL, model, [REHEARSAL])
    provider = providers_of(wish.settings).get(name)
    if provider is None:
        if not slash:
            for endpoint in _local(wish):
                if text in (listed.get(endpoint.base_url) or ()):
                    return ResolvedModel(
                        provider=endpoint.name, model=text, endpoint=endpoint, reason=reason
                    )
        error = unknown_provider(wish.settings, text)
        if reason == BY_DEFAULT:
            raise NotFoundError(
                f"{error} The default model is {text}: `callboard models default` chooses another."
            )
        raise error
    model = model or provider.model or first_chat_model(listed.get(provider.base_url)) or ""
    if not model:
        raise ValidationError(
            f"{name} needs the name of a model, as in {name}/MODEL: it has no default, and "
            f"{_no_list(provider.base_url, listed)}",
            field="model",
        )
    return _resolved(wish, provider, model, reason)


def _at_base_url(wish: Wish, base_url: str, listed: Listed) -> ResolvedModel:
    provider = provider_at(wish.settings, base_url, wish.dialect)
    model = (wish.choice or "").removeprefix(f"{provider.name}/")
    model = model or provider.model or first_chat_model(listed.get(provider.base_url)) or ""
    if not model:
        raise ValidationError(
            f"--base-url {provider.base_url} needs --model MODEL: "
            f"{_no_list(provider.base_url, listed)}",
            field="model",
        )
    return _resolved(wish, provider, model, "because --base-url says so")


def _no_list(base_url: str, listed: Listed) -> str:
    if base_url in listed and listed[base_url] is None:
        return f"nothing answered at {base_url}. Is the server running?"
    return f"no list of models came from {base_url}."


def _with_key(wish: Wish) -> KnownProvider | None:
    """The first provider of `KEY_ORDER` that has a key and a model."""
    providers = providers_of(wish.settings)
    for name in KEY_ORDER:
        provider = providers[name]
        if name in wish.settings.inactive or provider.model is None:
            continue
        if _key(provider, wish) is not None:
            return provider
    return None


def _local(wish: Wish) -> tuple[Endpoint, ...]:
    """The servers of this machine that are not left without a key that they want."""
    providers = providers_of(wish.settings)
    return tuple(
        endpoint_of(provider, wish)
        for provider in (providers[name] for name in LOCAL_ORDER)
        if provider.name not in wish.settings.inactive
        and (not provider.key_required or _key(provider, wish) is not None)
    )


def _key(provider: KnownProvider, wish: Wish) -> Secret | None:
    variable = provider.variable(wish.environ)
    return find_key(provider.name, provider.base_url, variable, wish.environ, wish.stored)


def endpoint_of(provider: KnownProvider, wish: Wish) -> Endpoint:
    """The provider with its key and its wire format, which is imported with the first one.

    Raises:
        AuthError: Its key is missing, broken or locked, or would travel in clear text.
    """
    key = _key(provider, wish)
    if key is None and provider.key_required:
        raise _missing_key(provider, wish)
    if key is not None:
        variable = provider.variable(wish.environ)
        check_key_may_travel(provider.base_url, variable, wish.environ)
    return Endpoint(
        name=provider.name,
        dialect=dialect_at(provider.dialect, provider.base_url),
        base_url=provider.base_url,
        key=key,
    )


def _missing_key(provider: KnownProvider, wish: Wish) -> AuthError:
    """What is to be done, and why a key that somebody may have in mind is not the one."""
    set_it = f"set {provider.key_env}, or " if provider.key_env else ""
    text = (
        f"{provider.name} needs a key: {set_it}store one with `callboard keys set {provider.name}`."
    )
    here = origin(provider.base_url)
    places = ", ".join(place for place in wish.stored_places(provider.name) if place != here)
    if places:
        text += f" The one that is stored is for {places}, and is not sent to {here}."
    unused = provider.why_unused(wish.environ)
    return AuthError(f"{text} {unused}" if unused else text)


def _active(provider: KnownProvider, wish: Wish) -> KnownProvider:
    if provider.name in wish.settings.inactive:
        name = provider.name
        raise NotFoundError(
            f"The provider {name} is deactivated. `callboard providers activate {name}` activates "
            "it; or name another one."
        )
    return provider


def _resolved(wish: Wish, provider: KnownProvider, model: str, reason: str) -> ResolvedModel:
    endpoint = endpoint_of(_active(provider, wish), wish)
    return ResolvedModel(provider=provider.name, model=model, endpoint=endpoint, reason=reason)


def _rehearsal(reason: str) -> ResolvedModel:
    return ResolvedModel(provider=REHEARSAL, model=REHEARSAL, endpoint=None, reason=reason)


def first_chat_model(models: Sequence[str] | None) -> str | None:
    """The first listed model that answers; embedding models are listed beside them."""
    return next((model for model in models or () if "embed" not in model.lower()), None)
