"""Choosing the model of a session: pure decisions, no I/O.

The order: what the command names, what the agent prefers, what the configuration says, the first
provider with a key, a server on this machine, and last the built-in rehearsal model. A decision
that depends on what servers offer is made in two steps: `servers_to_ask` names them, the caller
fetches their lists of models, and `resolve_model` decides.

A key goes only to the origin it belongs to, and in clear text only to this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...config.base_url import is_loopback, origin
from ...config.settings import Settings
from ...runtime.definitions import Agent
from ...runtime.errors import AuthError, NotFoundError, ValidationError
from ...runtime.redaction import Secret
from ...runtime.text import did_you_mean
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
from .table import REHEARSAL, provider_at, provider_named, providers_of, unknown_provider

MAX_LISTED_MODELS = 20
"""Models that an error names: one screen; OpenRouter has hundreds."""

BY_DEFAULT = "because it is the configured default"

Listed = Mapping[str, Sequence[str] | None]
"""Model ids by base URL, `None` where nothing answered."""


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model chosen for a session.

    Attributes:
        provider: The provider's name.
        model: The model's id at its provider.
        endpoint: Where it is served; `None` for the rehearsal model, which runs in this process.
        reason: Why it was chosen, for a person: "because OPENAI_API_KEY is set".
    """

    provider: str
    model: str
    endpoint: Endpoint | None
    reason: str

    @property
    def choice(self) -> str:
        """`PROVIDER/MODEL`."""
        return f"{self.provider}/{self.model}"


class ModelSelection(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is chosen by: the options of the caller, the agent, the settings, the keys.

    Attributes:
        choice: `--model`: `PROVIDER/MODEL`, or a provider's name alone.
        base_url: `--base-url`: any compatible server; `choice` is then the model's id there.
        dialect: `--dialect`: the wire format of that server; else that of the provider whose
            origin it has, else Chat Completions.
        agent: The session's agent, whose preference comes next.
        settings: The configuration.
        environ: The environment, for keys.
        stored: Finds a stored key when the environment has none.
        stored_places: Returns the origins that have a stored key of a provider, for error messages.
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


def servers_to_ask(selection: ModelSelection) -> tuple[Endpoint, ...]:
    """Return the servers whose lists of models `resolve_model` needs; usually none.

    The caller asks each at `base_url` + `/models`, treats one that does not answer soon as absent,
    and passes the ids to `resolve_model` by `base_url`.

    Raises:
        CallboardError: As `resolve_model`.
    """
    if selection.base_url is not None:
        provider = provider_at(selection.settings, selection.base_url, selection.dialect)
        if selection.choice or provider.model:
            return ()
        return (endpoint_of(_active(provider, selection), selection),)
    named = _named(selection)
    if named is None:
        return () if _with_key(selection) else _local(selection)
    text, _ = named
    name, _, model = text.partition("/")
    if model or name == REHEARSAL:
        return ()
    known = providers_of(selection.settings).get(name)
    if known is None:
        return _on_this_machine(selection)
    return () if known.model else (endpoint_of(_active(known, selection), selection),)


def resolve_model(selection: ModelSelection, listed: Listed | None = None) -> ResolvedModel:
    """Return the model that a session gets.

    Args:
        selection: What the model is chosen by.
        listed: Model ids by base URL, of the servers of `servers_to_ask`.

    Raises:
        NotFoundError: The provider or model does not exist. The message lists those that do.
        AuthError: Its key is missing or malformed, or would travel in clear text.
        ValidationError: The base URL is invalid, or no model is named and the server lists none.
    """
    listed = listed or {}
    if selection.base_url is not None:
        return _at_base_url(selection, selection.base_url, listed)
    named = _named(selection)
    if named is not None:
        return _by_name(selection, *named, listed)
    provider = _with_key(selection)
    if provider is not None and provider.model is not None:
        variable = provider.variable(selection.environ)
        is_set = has_environment_key(variable, selection.environ)
        why = f"{variable} is set" if is_set else f"a key is stored for {provider.name}"
        return _resolved(selection, provider, provider.model, f"because {why}")
    for endpoint in _local(selection):
        model = first_chat_model(listed.get(endpoint.base_url))
        if model is not None:
            reason = f"because a server answers at {endpoint.base_url}"
            return ResolvedModel(
                provider=endpoint.name, model=model, endpoint=endpoint, reason=reason
            )
    return _rehearsal("because no model is configured")


def find_provider(selection: ModelSelection, name: str) -> KnownProvider:
    """Return the provider of that name: built in, configured, or the one of `--base-url`.

    It may be inactive, since an inactive provider can be tested and asked for its models.

    Raises:
        NotFoundError: There is none. The message lists those that exist.
    """
    if selection.base_url is not None:
        there = provider_at(selection.settings, selection.base_url, selection.dialect)
        if there.name == name:
            return there
    return provider_named(selection.settings, name)


def unknown_model(provider: str, model: str, available: Sequence[str]) -> NotFoundError:
    """Return the error for a model that its provider does not have."""
    names = sorted(available)
    shown = ", ".join(names[:MAX_LISTED_MODELS])
    more = f" and {len(names) - MAX_LISTED_MODELS} more" if len(names) > MAX_LISTED_MODELS else ""
    lists = f"It has: {shown}{more}." if names else "It lists no models."
    return NotFoundError(f"{provider} has no model {model!r}.{did_you_mean(model, names)} {lists}")


def _named(selection: ModelSelection) -> tuple[str, str] | None:
    """Return the model named by the strongest source, with the reason."""
    if selection.choice:
        return selection.choice, "because --model says so"
    if selection.agent is not None and selection.agent.model:
        return selection.agent.model, f"because agent {selection.agent.name!r} prefers it"
    if selection.settings.model:
        return selection.settings.model, BY_DEFAULT
    return None


def _by_name(selection: ModelSelection, text: str, reason: str, listed: Listed) -> ResolvedModel:
    name, slash, model = text.partition("/")
    if name == REHEARSAL:
        if model in {"", REHEARSAL}:
            return _rehearsal(reason)
        raise unknown_model(REHEARSAL, model, [REHEARSAL])
    provider = providers_of(selection.settings).get(name)
    if provider is None:
        if not slash:
            for endpoint in _on_this_machine(selection):
                if text in (listed.get(endpoint.base_url) or ()):
                    return ResolvedModel(
                        provider=endpoint.name, model=text, endpoint=endpoint, reason=reason
                    )
        error = unknown_provider(selection.settings, text)
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
    return _resolved(selection, provider, model, reason)


def _at_base_url(selection: ModelSelection, base_url: str, listed: Listed) -> ResolvedModel:
    provider = provider_at(selection.settings, base_url, selection.dialect)
    model = (selection.choice or "").removeprefix(f"{provider.name}/")
    model = model or provider.model or first_chat_model(listed.get(provider.base_url)) or ""
    if not model:
        raise ValidationError(
            f"--base-url {provider.base_url} needs --model MODEL: "
            f"{_no_list(provider.base_url, listed)}",
            field="model",
        )
    return _resolved(selection, provider, model, "because --base-url says so")


def _no_list(base_url: str, listed: Listed) -> str:
    if base_url in listed and listed[base_url] is None:
        return f"nothing answered at {base_url}. Is the server running?"
    return f"no list of models came from {base_url}."


def _with_key(selection: ModelSelection) -> KnownProvider | None:
    """Return the first provider of `KEY_ORDER` that has a key and a model."""
    providers = providers_of(selection.settings)
    for name in KEY_ORDER:
        provider = providers[name]
        if name in selection.settings.inactive or provider.model is None:
            continue
        if _key(provider, selection) is not None:
            return provider
    return None


def _local(selection: ModelSelection) -> tuple[Endpoint, ...]:
    """Return the known servers of this machine, without those that lack a key they need."""
    return _usable(selection, LOCAL_ORDER)


def _on_this_machine(selection: ModelSelection) -> tuple[Endpoint, ...]:
    """Return them and those that were added here, which may have a model of a name."""
    providers = providers_of(selection.settings)
    own = [name for name in selection.settings.providers if is_loopback(providers[name].base_url)]
    return _usable(selection, dict.fromkeys((*LOCAL_ORDER, *own)))


def _usable(selection: ModelSelection, names: Iterable[str]) -> tuple[Endpoint, ...]:
    providers = providers_of(selection.settings)
    return tuple(
        endpoint_of(provider, selection)
        for provider in (providers[name] for name in names)
        if provider.name not in selection.settings.inactive
        and (not provider.key_required or _key(provider, selection) is not None)
    )


def _key(provider: KnownProvider, selection: ModelSelection) -> Secret | None:
    variable = provider.variable(selection.environ)
    return find_key(provider.name, provider.base_url, variable, selection.environ, selection.stored)


def endpoint_of(provider: KnownProvider, selection: ModelSelection) -> Endpoint:
    """Return the provider with its key and its wire format, imported on first use.

    Raises:
        AuthError: Its key is missing, broken or locked, or would travel in clear text.
    """
    key = _key(provider, selection)
    if key is None and provider.key_required:
        raise _missing_key(provider, selection)
    if key is not None:
        variable = provider.variable(selection.environ)
        check_key_may_travel(provider.base_url, variable, selection.environ)
    return Endpoint(
        name=provider.name,
        dialect=dialect_at(provider.dialect, provider.base_url),
        base_url=provider.base_url,
        key=key,
    )


def _missing_key(provider: KnownProvider, selection: ModelSelection) -> AuthError:
    """Return the error for a missing key, and say why a key for another place is not used."""
    set_it = f"set {provider.key_env}, or " if provider.key_env else ""
    text = (
        f"{provider.name} needs a key: {set_it}store one with `callboard keys set {provider.name}`."
    )
    here = origin(provider.base_url)
    places = ", ".join(place for place in selection.stored_places(provider.name) if place != here)
    if places:
        text += f" The one that is stored is for {places}, and is not sent to {here}."
    unused = provider.why_unused(selection.environ)
    return AuthError(f"{text} {unused}" if unused else text)


def _active(provider: KnownProvider, selection: ModelSelection) -> KnownProvider:
    if provider.name in selection.settings.inactive:
        name = provider.name
        raise NotFoundError(
            f"The provider {name} is deactivated. `callboard providers activate {name}` activates "
            "it; or name another one."
        )
    return provider


def _resolved(
    selection: ModelSelection, provider: KnownProvider, model: str, reason: str
) -> ResolvedModel:
    endpoint = endpoint_of(_active(provider, selection), selection)
    return ResolvedModel(provider=provider.name, model=model, endpoint=endpoint, reason=reason)


def _rehearsal(reason: str) -> ResolvedModel:
    return ResolvedModel(provider=REHEARSAL, model=REHEARSAL, endpoint=None, reason=reason)


def first_chat_model(models: Sequence[str] | None) -> str | None:
    """Return the first model of a list that can hold a conversation: embedding models can't."""
    return next((model for model in models or () if "embed" not in model.lower()), None)
