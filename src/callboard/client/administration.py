"""The upkeep of a daemon, as a client does it: configuration, roots, tokens, backups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ..runtime.definitions import Agent
from ..runtime.errors import NotFoundError
from ..runtime.memory.memories import Memory
from ..runtime.wire import providers as wire
from ..runtime.wire.agents import (
    AgentDeleted,
    AgentList,
    AgentRow,
    ChangedAgent,
    CloneAgent,
    NewAgent,
    OneAgent,
    PreviewAgent,
    PromptPreview,
    draft_of,
)
from ..runtime.wire.daemon import (
    BackupMade,
    ConsoleTicket,
    NamedToken,
    NewToken,
    OneSetting,
    Reloaded,
    TokenList,
    TokenRow,
    TokenText,
    WantedTicket,
    WorkspaceRoot,
    WorkspaceRoots,
)
from ..runtime.wire.fields import Nothing, Role
from ..runtime.wire.hooks import (
    ChangedHook,
    DeadLetter,
    DeadLetterList,
    HookList,
    HookRow,
    HookTested,
    NewHook,
    OneHook,
    Resend,
    Resent,
    hook_draft,
)
from ..runtime.wire.memories import ListMemories, Memories, OneMemory, SearchMemories, StoreMemory
from ..runtime.wire.schedules import (
    ChangedSchedule,
    Firing,
    FiringList,
    NewSchedule,
    OneSchedule,
    PlannedTimesList,
    ScheduleList,
    ScheduleRow,
    SomeTimes,
    schedule_draft,
)
from ..runtime.wire.skills import AllowSkill, ListSkills, OneSkill
from ..runtime.wire.turns import LogTail, TailLog
from .files import Asking

if TYPE_CHECKING:  # what a request needs of these is imported when it is made
    from ..config.prices import PriceRow
    from ..config.setting_rows import SettingRow
    from ..providers.catalog.connection_test import ConnectionReport
    from ..runtime.hooks.hook import Hook
    from ..runtime.schedules.schedule import Schedule
    from ..tools.skills.book import SkillText
    from ..tools.skills.shelf import Skill


class _Requests:  # ruff: ignore[class-as-data-structure]  subclasses have the methods
    def __init__(self, client: Asking) -> None:
        self._client = client


class ClientAgents(_Requests):
    """`Client.agents`: the agents in force, and changes of those that programs and commands made."""

    async def list(self) -> Sequence[AgentRow]:
        """Return the agents, sorted by name."""
        return (await self._client.request("agent/list", Nothing(), AgentList)).agents

    async def get(self, name: str) -> AgentRow:
        """Return an agent; raise `NotFoundError`."""
        return await self._client.request("agent/get", OneAgent(name), AgentRow)

    async def preview(self, name: str, *, workspace: str | None = None) -> PromptPreview:
        """Return what a model is told before anything is said; in a workspace, with its skills and each AGENTS.md."""
        params = PreviewAgent(name=name, workspace=workspace)
        return await self._client.request("agent/preview", params, PromptPreview)

    async def create(self, agent: Agent) -> AgentRow:
        """Make an agent, which sessions may have at once."""
        return await self._client.request("agent/create", NewAgent(draft_of(agent)), AgentRow)

    async def update(self, agent: Agent) -> AgentRow:
        """Change an agent as a whole, for turns that begin afterwards."""
        return await self._client.request("agent/update", ChangedAgent(draft_of(agent)), AgentRow)

    async def clone(self, name: str, new_name: str) -> AgentRow:
        """Copy an agent under another name; nothing binds the copy to it."""
        return await self._client.request("agent/clone", CloneAgent(name, new_name), AgentRow)

    async def delete(self, name: str) -> AgentDeleted:
        """Delete an agent; General Assistant takes over its sessions, and turns that run go on."""
        return await self._client.request("agent/delete", OneAgent(name), AgentDeleted)


class ClientSchedules(_Requests):
    """`Client.schedules`: the schedules in force, and changes of those that programs and commands made."""

    async def list(self) -> Sequence[ScheduleRow]:
        """Return the schedules, sorted by name, each with its next times and its last firing."""
        return (await self._client.request("schedule/list", Nothing(), ScheduleList)).schedules

    async def get(self, name: str) -> ScheduleRow:
        """Return a schedule; raise `NotFoundError`."""
        return await self._client.request("schedule/get", OneSchedule(name), ScheduleRow)

    async def create(self, schedule: Schedule) -> ScheduleRow:
        """Make a schedule, which holds at once."""
        params = NewSchedule(schedule_draft(schedule))
        return await self._client.request("schedule/create", params, ScheduleRow)

    async def update(self, schedule: Schedule) -> ScheduleRow:
        """Change a schedule as a whole; with other times, it is planned from now on."""
        params = ChangedSchedule(schedule_draft(schedule))
        return await self._client.request("schedule/update", params, ScheduleRow)

    async def delete(self, name: str) -> None:
        """Remove a schedule; its sessions stay."""
        await self._client.request("schedule/delete", OneSchedule(name), Nothing)

    async def pause(self, name: str) -> ScheduleRow:
        """Let a schedule not fire until it is resumed."""
        return await self._client.request("schedule/pause", OneSchedule(name), ScheduleRow)

    async def resume(self, name: str) -> ScheduleRow:
        """Let a schedule fire again; what it was planned for meanwhile is left out."""
        return await self._client.request("schedule/resume", OneSchedule(name), ScheduleRow)

    async def run(self, name: str) -> Firing:
        """Fire a schedule now; its input is on record when this returns."""
        return await self._client.request("schedule/run", OneSchedule(name), Firing)

    async def next(self, name: str, count: int = 3) -> Sequence[int]:
        """Return the next planned times of a schedule, in Unix milliseconds."""
        params = SomeTimes(name, count)
        return (await self._client.request("schedule/next", params, PlannedTimesList)).planned_at_ms

    async def firings(self, name: str, limit: int = 10) -> Sequence[Firing]:
        """Return the last firings of a schedule and what became of them, the latest first."""
        params = SomeTimes(name, limit)
        return (await self._client.request("schedule/firings", params, FiringList)).firings


class ClientSettings(_Requests):
    """`Client.settings`: the settings in force; takes an administrator."""

    async def list(self) -> Sequence[SettingRow]:
        """Return every setting in force, without secrets."""
        from ..config.setting_rows import SettingRows

        return (await self._client.request("settings/get", Nothing(), SettingRows)).settings

    async def get(self, name: str) -> SettingRow:
        """Return a setting, as `limits.idle_seconds`; raise `NotFoundError`."""
        found = next((row for row in await self.list() if row.name == name), None)
        if found is None:
            raise NotFoundError(f"there is no setting {name!r}")
        return found

    async def set(self, name: str, value: bool | float | str | None) -> SettingRow:
        """Set a setting that bounds or paces work, or with `None` take back what was set."""
        from ..config.setting_rows import SettingRow

        return await self._client.request("settings/set", OneSetting(name, value), SettingRow)


class ClientSkills(_Requests):
    """`Client.skills`: what tells models how to work in a workspace, and what of it is allowed.

    Listing takes an operator, all else an administrator.
    """

    async def list(self, *, workspace: str) -> Sequence[Skill]:
        """Return the skills for a workspace, then each AGENTS.md, whatever its state."""
        from ..tools.skills.book import SkillList

        return (await self._client.request("skill/list", ListSkills(workspace), SkillList)).skills

    async def get(self, path: str, *, workspace: str) -> SkillText:
        """Return what a skill says, allowed or not; raise `NotFoundError`."""
        from ..tools.skills.book import SkillText

        return await self._client.request("skill/get", OneSkill(workspace, path), SkillText)

    async def allow(self, path: str, digest: str, *, workspace: str) -> Skill:
        """Let models have exactly this content; raise `ConflictError` when it is another by now."""
        from ..tools.skills.shelf import Skill

        params = AllowSkill(workspace, path, digest)
        return await self._client.request("skill/allow", params, Skill)

    async def revoke(self, path: str, *, workspace: str) -> None:
        """Take back what was allowed; raise `NotFoundError` when nothing was."""
        await self._client.request("skill/revoke", OneSkill(workspace, path), Nothing)


class ClientTokens(_Requests):
    """`Client.tokens`: who may connect. Takes an administrator, but for tickets to the console."""

    async def list(self) -> Sequence[TokenRow]:
        """Return the names and rights of tokens, oldest first; never a token itself."""
        return (await self._client.request("token/list", Nothing(), TokenList)).tokens

    async def create(
        self,
        name: str,
        role: Role | Literal["observer", "operator", "approver", "admin"],
        *,
        agents: Iterable[str] | None = None,
        sessions: Iterable[str] | None = None,
    ) -> str:
        """Create a token and return it; it is shown this once.

        Args:
            name: Its name.
            role: What it may do.
            agents: Limits it to sessions of these agents.
            sessions: Limits it to the sessions with these ids.
        """
        params = NewToken(
            name=name,
            role=Role(role),
            agents=None if agents is None else tuple(agents),
            sessions=None if sessions is None else tuple(sessions),
        )
        return (await self._client.request("token/create", params, TokenText)).token

    async def rotate(self, name: str) -> str:
        """Replace a token and return the new one; connections of the old one end."""
        return (await self._client.request("token/rotate", NamedToken(name), TokenText)).token

    async def revoke(self, name: str) -> None:
        """Revoke a token, and end its connections."""
        await self._client.request("token/revoke", NamedToken(name), Nothing)

    async def console_ticket(
        self, role: Role | Literal["observer", "operator", "approver", "admin"] | None = None
    ) -> ConsoleTicket:
        """Return a ticket with which a browser logs in at the console once, as this client or in a lower role."""
        params = WantedTicket(None if role is None else Role(role))
        return await self._client.request("console/ticket", params, ConsoleTicket)


class ClientUpkeep(_Requests):
    """`Client.upkeep`: what an administrator does for a daemon that runs."""

    async def reload(self) -> Reloaded:
        """Reload the configuration, whole or not at all."""
        return await self._client.request("config/reload", Nothing(), Reloaded)

    async def prices(self) -> Sequence[PriceRow]:
        """Return prices of models, in US dollars for a million tokens."""
        from ..config.prices import Prices

        return (await self._client.request("price/list", Nothing(), Prices)).prices

    async def roots(self) -> Sequence[str]:
        """Return the folders below which sessions may work."""
        return (await self._client.request("root/list", Nothing(), WorkspaceRoots)).roots

    async def add_root(self, path: str) -> Sequence[str]:
        """Add a folder below which sessions may work, until the daemon ends."""
        return (await self._client.request("root/add", WorkspaceRoot(path), WorkspaceRoots)).roots

    async def log(
        self,
        *,
        after: int = 0,
        level: Literal["debug", "info", "warning", "error"] = "info",
        limit: int = 200,
        wait: bool = False,
    ) -> LogTail:
        """Return what the daemon logged last, of at least a level, behind the record with this number.

        With `wait`, the answer comes once there is such a record, or after 25 seconds without one. To follow the
        log, ask again behind its `head`; `is_cut` says that more came meanwhile than an answer holds.
        """
        params = TailLog(after=after, level=level, limit=limit, wait=wait)
        return await self._client.request("log/tail", params, LogTail)

    async def backup(self) -> BackupMade:
        """Copy the store into a new file of the daemon's data folder, while work goes on."""
        return await self._client.request("store/backup", Nothing(), BackupMade)


class ClientMemories(_Requests):
    """`Client.memories`: what sessions leave to later ones."""

    async def list(
        self, *, agent: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[Memory]:
        """Return memories of one agent or of all, the latest first; only older ones than `before`."""
        params = ListMemories(agent=agent, before=before, limit=limit)
        return (await self._client.request("memory/list", params, Memories)).memories

    async def search(
        self, query: str, *, agent: str = "general", limit: int = 20
    ) -> Sequence[Memory]:
        """Return memories of an agent that have a word of the query, the best first."""
        params = SearchMemories(query=query, agent=agent, limit=limit)
        return (await self._client.request("memory/search", params, Memories)).memories

    async def store(self, session_id: str, text: str, *, tags: Iterable[str] = ()) -> Memory:
        """Store a memory for later sessions of a session's agent; repetitions are stored once."""
        params = StoreMemory(session_id=session_id, text=text, tags=tuple(tags))
        return await self._client.request("memory/store", params, Memory)

    async def forget(self, memory_id: str) -> None:
        """Delete a memory: no session finds it any more."""
        await self._client.request("memory/delete", OneMemory(memory_id), Nothing)


class ClientHooks(_Requests):
    """`Client.hooks`: what other systems begin in the daemon, and what they are told.

    Example:
        for letter in await client.hooks.dead():
            print(letter.name, letter.problem)
        print((await client.hooks.resend()).sent)
    """

    async def list(self) -> Sequence[HookRow]:
        """Return the hooks and webhooks, never their secrets."""
        return (await self._client.request("hook/list", Nothing(), HookList)).hooks

    async def get(self, name: str) -> HookRow:
        """Return a hook; raise `NotFoundError`."""
        return await self._client.request("hook/get", OneHook(name), HookRow)

    async def create(self, hook: Hook) -> HookRow:
        """Make a hook, which takes deliveries at once if it has a secret."""
        return await self._client.request("hook/create", NewHook(hook_draft(hook)), HookRow)

    async def update(self, hook: Hook) -> HookRow:
        """Change a hook as a whole; a paused one lets nothing in."""
        return await self._client.request("hook/update", ChangedHook(hook_draft(hook)), HookRow)

    async def delete(self, name: str) -> None:
        """Remove a hook; its sessions and its secret stay."""
        await self._client.request("hook/delete", OneHook(name), Nothing)

    async def test(self, name: str) -> str:
        """Post a test to a webhook; return what is wrong, or `""`. Raises `NotFoundError`."""
        return (await self._client.request("hook/test", OneHook(name), HookTested)).problem

    async def dead(self) -> Sequence[DeadLetter]:
        """Return the notices that no attempt delivered, the oldest first."""
        return (await self._client.request("hook/dead", Nothing(), DeadLetterList)).letters

    async def resend(self, names: Iterable[str] = ()) -> Resent:
        """Send dead letters once more, without names all of them; raise `NotFoundError`."""
        return await self._client.request("hook/resend", Resend(tuple(names)), Resent)


class ClientProviders(_Requests):
    """`Client.providers`: where models are. A change holds at once, or is refused."""

    async def list(self) -> Sequence[wire.ProviderRow]:
        """Return the providers, and whether each has a key."""
        return (await self._client.request("provider/list", Nothing(), wire.Providers)).providers

    async def create(
        self,
        name: str,
        base_url: str,
        *,
        dialect: str | None = None,
        model: str | None = None,
        models: Iterable[str] = (),
    ) -> wire.ProviderChanged:
        """Add a provider: any server that speaks one of the wire formats.

        Args:
            name: As in `PROVIDER/MODEL`.
            base_url: Everything before the wire format's own path.
            dialect: Its wire format; by default that of a known provider there, else `openai_chat`.
            model: The model to use when only the provider is named.
            models: Models that it does not list.
        """
        params = wire.NewProvider(
            name=name, base_url=base_url, dialect=dialect, model=model, models=tuple(models)
        )
        return await self._client.request("provider/create", params, wire.ProviderChanged)

    async def update(
        self,
        provider: str,
        *,
        base_url: str | None = None,
        dialect: str | None = None,
        model: str | None = None,
        models: Iterable[str] | None = None,
        is_active: bool | None = None,
    ) -> wire.ProviderChanged:
        """Change a provider, or switch it on or off; an empty text resets a field."""
        params = wire.ChangeProvider(
            provider=provider,
            base_url=base_url,
            dialect=dialect,
            model=model,
            models=None if models is None else tuple(models),
            is_active=is_active,
        )
        return await self._client.request("provider/update", params, wire.ProviderChanged)

    async def delete(self, provider: str) -> wire.ProviderChanged:
        """Remove an added provider, or the changes to a built-in one."""
        return await self._client.request(
            "provider/delete", wire.NamedProvider(provider), wire.ProviderChanged
        )

    async def test(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Test whether a provider answers, and if not, which step fails; costs some tokens."""
        from ..providers.catalog.connection_test import ConnectionReport

        params = wire.TryProvider(provider=provider, model=model)
        return await self._client.request("provider/test", params, ConnectionReport)


class ClientModels(_Requests):
    """`Client.models`: which models there are, and which is the default."""

    async def list(self, provider: str, *, refresh: bool = False) -> wire.ModelList:
        """Return the models that a provider listed last; with `refresh`, ask it again."""
        method = "model/refresh" if refresh else "model/list"
        return await self._client.request(method, wire.ListModels(provider), wire.ModelList)

    async def default(self) -> wire.SelectedModel:
        """Return the model that answers when nothing else names one, and why."""
        return await self._client.request("model/default", Nothing(), wire.SelectedModel)

    async def chosen(self) -> wire.ModelChosen:
        """Return the default that the configuration names."""
        return await self._client.request("model/chosen", Nothing(), wire.ModelChosen)

    async def choose(self, model: str | None) -> wire.ModelChosen:
        """Choose the default `PROVIDER/MODEL`; `None` takes the choice back."""
        return await self._client.request(
            "model/set_default", wire.ChooseModel(model), wire.ModelChosen
        )

    async def add(self, provider: str, model: str) -> wire.ProviderChanged:
        """Add a model that a provider does not list."""
        return await self._client.request(
            "model/add", wire.OneModel(provider, model), wire.ProviderChanged
        )

    async def remove(self, provider: str, model: str) -> wire.ProviderChanged:
        """Remove a model that was added."""
        return await self._client.request(
            "model/remove", wire.OneModel(provider, model), wire.ProviderChanged
        )


class ClientKeys(_Requests):
    """`Client.keys`: keys go in, and never out."""

    async def list(self) -> Sequence[wire.KeyRow]:
        """Return who has a key, from where, and whether it is used."""
        return (await self._client.request("key/list", Nothing(), wire.Keys)).keys

    async def place(self, provider: str, *, origin: str | None = None) -> wire.KeyDestination:
        """Return where a key would be sent; for `git`, pass the server's origin."""
        return await self._client.request(
            "key/place", wire.KeyOwner(provider, origin), wire.KeyDestination
        )

    async def set(self, provider: str, key: str, *, origin: str | None = None) -> wire.KeyStored:
        """Store a key, encrypted, and use it from the next request on."""
        params = wire.SetKey(provider, key, origin)
        return await self._client.request("provider/set_key", params, wire.KeyStored)

    async def remove(self, provider: str) -> wire.KeysRemoved:
        """Remove all stored keys of a provider."""
        return await self._client.request("key/remove", wire.KeyOwner(provider), wire.KeysRemoved)
