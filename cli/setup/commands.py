"""The options of `keys`, `providers`, `models`, `token`, `memory` and `skills`.

What a command does is imported when it runs, so that other commands start fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ..parameters import Config, Data, DialectOption, Json, data_path

# ── keys ─────────────────────────────────────────────────────────────────────────────────────────

KeyOwner = Annotated[str, Parameter(help="The provider's name, as in PROVIDER/MODEL.")]
Origin = Annotated[
    str | None, Parameter(help="For git: the server that it is for, like https://github.com.")
]

keys = App(name="keys", help="Store, list and remove the keys of providers.")


@keys.command(name="set")
def set_key(
    provider: KeyOwner,
    /,
    *,
    origin: Origin = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Store a provider's key, encrypted; `git` stores the credential of a git server.

    It is asked for without being shown, or read from stdin when that is no terminal. It is never
    an argument: those stand in the shell's history and in the list of processes.
    """
    from .keys import set_key as store

    return store(config, data_path(data), provider, origin)


@keys.command(name="list")
def list_keys(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List who has a key, and where it comes from; never a key itself."""
    from .keys import list_keys as show

    return show(config, data_path(data), json=json)


@keys.command(name="remove")
def remove_key(provider: KeyOwner, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a provider's stored keys, of all its origins."""
    from .keys import remove_key as remove

    return remove(config, data_path(data), provider)


@keys.command
def rotate_master(*, config: Config = None, data: Data = None) -> int:
    """Make a new master key and encrypt every stored key again with it."""
    from .keys import rotate_master as rotate

    return rotate(config, data_path(data))


# ── providers ────────────────────────────────────────────────────────────────────────────────────

ProviderName = Annotated[str, Parameter(help="The provider's name, as in PROVIDER/MODEL.")]
BaseUrl = Annotated[
    str, Parameter(help="Everything before the wire format's own path; often it ends in /v1.")
]
NewBaseUrl = Annotated[str | None, Parameter(help="Another base URL.")]
KeyEnv = Annotated[
    str | None,
    Parameter(help="The NAME of the environment variable of its key; '' takes it back."),
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
    from .providers import list_providers as show

    return show(config, data_path(data), json=json)


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
    from .providers import add_provider

    options = {
        "base_url": base_url,
        "dialect": dialect,
        "key_env": key_env,
        "model": model,
        "models": models,
    }
    return add_provider(config, data_path(data), name, options, json=json)


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
    from .providers import edit_provider

    options = {
        "base_url": base_url,
        "dialect": dialect,
        "key_env": key_env,
        "model": model,
        "models": models,
    }
    return edit_provider(config, data_path(data), name, options, json=json)


@providers.command(name="remove")
def remove_provider(
    name: ProviderName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Remove a provider that was added; what was changed of a built-in one is as before."""
    from .providers import remove_provider as remove

    return remove(config, data_path(data), name, json=json)


@providers.command
def activate(
    name: ProviderName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Let a provider be used again."""
    from .providers import activate_provider

    return activate_provider(config, data_path(data), name, active=True, json=json)


@providers.command
def deactivate(
    name: ProviderName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Let a provider not be used; it keeps its key and its settings."""
    from .providers import activate_provider

    return activate_provider(config, data_path(data), name, active=False, json=json)


@providers.command(name="test")
def try_out(
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
    from .providers import try_provider

    return try_provider(config, data_path(data), name, model, json=json)


# ── models ───────────────────────────────────────────────────────────────────────────────────────

OfProvider = Annotated[str | None, Parameter(help="Only this provider's, as in PROVIDER/MODEL.")]
Refresh = Annotated[
    bool, Parameter(help="Ask the providers; else their lists from before hold.", negative=())
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
    from .models import show_models

    return show_models(config, data_path(data), provider, refresh=refresh, json=json)


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
    from .models import choose_default, show_default

    if unset or choice is not None:
        return choose_default(config, data_path(data), None if unset else choice, json=json)
    return show_default(config, data_path(data), json=json)


# ── token ────────────────────────────────────────────────────────────────────────────────────────

TokenName = Annotated[str, Parameter(name="NAME", help="What the token is called.")]
RoleName = Annotated[
    Literal["observer", "operator", "approver", "admin"],
    Parameter(name="--role", help="What it may do; each role includes those before it."),
]
AgentNames = Annotated[
    tuple[str, ...],
    Parameter(
        name="--agent",
        help="Only sessions of this agent; more than once for more.",
        negative=(),
        show_default=False,
    ),
]
SessionNames = Annotated[
    tuple[str, ...],
    Parameter(
        name="--session",
        help="Only this session, by its id; more than once for more.",
        negative=(),
        show_default=False,
    ),
]

token = App(name="token", help="Make, list and end the tokens with which clients connect.")


@token.command(name="create")
def create_token(
    name: TokenName,
    /,
    *,
    role: RoleName = "operator",
    agents: AgentNames = (),
    sessions: SessionNames = (),
    json: Json = False,
    data: Data = None,
) -> int:
    """Make a token for a client, and print it this once."""
    from ...runtime.wire.fields import Role
    from .tokens import create_token as create

    return create(data_path(data), name, Role(role), agents or None, sessions or None, json=json)


@token.command(name="list")
def list_tokens(*, json: Json = False, data: Data = None) -> int:
    """List the tokens there are; never a token itself."""
    from .tokens import list_tokens as show

    return show(data_path(data), json=json)


@token.command(name="rotate")
def rotate_token(name: TokenName, /, *, json: Json = False, data: Data = None) -> int:
    """Make a new token in the place of one, whose connections end."""
    from .tokens import rotate_token as rotate

    return rotate(data_path(data), name, json=json)


@token.command(name="revoke")
def revoke_token(name: TokenName, /, *, data: Data = None) -> int:
    """End a token, and its connections."""
    from .tokens import revoke_token as revoke

    return revoke(data_path(data), name)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────

Words = Annotated[str, Parameter(help="Words of the text, or tags; any of them counts.")]
MemoryName = Annotated[str, Parameter(help="Its id, or the beginning of it.")]
OfAgent = Annotated[str, Parameter(name="--agent", help="Whose sessions find it.")]
AgentChoice = Annotated[
    str | None, Parameter(name="--agent", help="Those of this agent; of all by default.")
]
Limit = Annotated[int, Parameter(help="How many.")]

memory = App(name="memory", help="List, search and take back what sessions remember.")


@memory.command(name="list")
def list_memories(
    *, agent: AgentChoice = None, limit: Limit = 100, json: Json = False, data: Data = None
) -> int:
    """List what is remembered, the latest first."""
    from .memories import show_memories

    return show_memories(data_path(data), agent, limit=limit, json=json)


@memory.command
def search(
    words: Words,
    /,
    *,
    agent: OfAgent = "general",
    limit: Limit = 20,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Find memories of an agent as its sessions do, the best first."""
    from ...config.files import load_settings
    from .memories import search_memories

    settings = load_settings(config).memory
    return search_memories(data_path(data), agent, words, settings, limit=limit, json=json)


@memory.command
def forget(memory_id: MemoryName, /, *, data: Data = None) -> int:
    """Take a memory back: no session finds it from then on."""
    from .memories import forget_memory

    return forget_memory(data_path(data), memory_id)


# ── skills ───────────────────────────────────────────────────────────────────────────────────────

SkillName = Annotated[str, Parameter(help="The skill's name, or its folder in the workspace.")]
Workspace = Annotated[Path | None, Parameter(help="The folder of the work; by default this one.")]

skills = App(name="skills", help="List skills, and approve those of a workspace.")


@skills.default
def list_skills(*, workspace: Workspace = None, json: Json = False, data: Data = None) -> int:
    """List your own skills and those of a workspace, and which of them models may use."""
    from .skills import show_skills

    return show_skills(data_path(data), workspace, json=json)


@skills.command(name="show")
def show_skill(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Print what a skill says and which files it has; nothing is approved by it."""
    from .skills import show_skill as show

    return show(data_path(data), workspace, name)


@skills.command(name="allow")
def allow_skill(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Approve a skill of a workspace as it is now: models may use it until it changes."""
    from .skills import allow_skill as allow

    return allow(data_path(data), workspace, name)


@skills.command(name="revoke")
def revoke_skill(name: SkillName, /, *, workspace: Workspace = None, data: Data = None) -> int:
    """Take the approval of a skill back."""
    from .skills import revoke_skill as revoke

    return revoke(data_path(data), workspace, name)
