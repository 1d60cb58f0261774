"""Hooks as programs, clients and commands manage them: list, make, change, remove.

A hook of callboard.toml is changed there; all others are in managed.toml. Each change is one new file, tried before
it is kept, and in force when the method returns. Secrets are in the store of keys, and never pass here.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec
import trio

from ...config.files import config_file, load_own_settings, load_settings_of, place_of
from ...config.managed import load_managed, remove_hook, save_hook
from ...config.settings import Settings
from ...config.validation import checked
from ...runtime.definitions import GENERAL_AGENT
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.hooks.hook import Hook
from ...runtime.identity import now_ms
from ...runtime.text import did_you_mean
from ...runtime.wire.hooks import HookRow
from ..agents import check_agent, check_name
from ..configuration import Configuration
from ..host import Host
from .hook_rows import WebhookState, hook_row, hook_rows


class HookBook:
    """Changes the hooks of managed.toml. Everything here blocks.

    Args:
        file: The operator's file, which need not exist.
        has_secret: Whether the store of keys has one of that name.
        agents: The agents that there are, beside the configured ones.
    """

    def __init__(
        self, file: Path | None, has_secret: Callable[[str], bool], agents: Collection[str] = ()
    ) -> None:
        self._file = config_file(file)
        self._has_secret = has_secret
        self._agents = {GENERAL_AGENT, *agents}

    def rows(self) -> list[HookRow]:
        """Return the hooks, then the webhooks, each sorted by name."""
        return hook_rows(load_settings_of(self._file), self._has_secret, _nothing_waits)

    def row(self, name: str) -> HookRow:
        """Return a hook; raise `NotFoundError`."""
        settings = load_settings_of(self._file)
        return hook_row(settings, _named(settings.hooks, name), self._has_secret)

    def create(self, hook: Hook) -> None:
        """Add a hook.

        Raises:
            ConflictError: It stands in callboard.toml; the message says where.
            ValidationError: A field is not what it may be; the message names it.
            StorageError: It can't be written.
        """
        self._check_elsewhere(hook.name, "choose another name")
        settings = load_settings_of(self._file)
        check_name(hook.name, settings.hooks, "a hook")
        self._save(hook, settings, None)

    def update(self, hook: Hook) -> None:
        """Change a hook as a whole.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml, or has changed since `hook.updated_at_ms`.
            ValidationError, StorageError: As `create`.
        """
        self._check_elsewhere(hook.name, "change it there")
        settings = load_settings_of(self._file)
        before = _named(settings.hooks, hook.name)
        if hook.updated_at_ms not in {None, before.updated_at_ms}:
            raise ConflictError(
                f"the hook {hook.name!r} was changed meanwhile: read it again, and change that."
            )
        self._save(hook, settings, before)

    def delete(self, name: str) -> None:
        """Remove a hook; its sessions and its secret stay, and turns that run go on.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml.
            StorageError: It can't be written.
        """
        if name not in (managed := load_managed(self._file.parent)).hooks:
            self._check_elsewhere(name, "remove it there")
            raise _missing(name, managed.hooks)
        remove_hook(self._file.parent, name)

    def _check_elsewhere(self, name: str, advice: str) -> None:
        if name in load_own_settings(self._file, required=False).hooks:
            place = place_of(self._file, "hooks", name)
            raise ConflictError(f"the hook {name!r} stands in {place}: {advice}.")

    def _save(self, hook: Hook, settings: Settings, before: Hook | None) -> None:
        hook, now = checked(hook, "hook"), now_ms()
        if before is None or before.agent != hook.agent:  # one whose agent has gone can be paused
            check_agent(hook.agent, {*self._agents, *settings.agents})
        made = now if before is None else before.created_at_ms
        times = {"created_at_ms": made, "updated_at_ms": now}
        save_hook(self._file.parent, msgspec.structs.replace(hook, **times))


class RuntimeHooks:
    """`Runtime.hooks`: the hooks in force, and changes of those that programs and commands made.

    Deliveries are taken by `callboard serve`. What a hook's secret is says `callboard keys set hook:NAME`.

    Args:
        host: Whose hooks these are.
        files: Returns the files of its configuration; raises `ConflictError` if it has none.
        has_secret: Whether the store of keys has one of that name; may block.

    Example:
        for hook in await runtime.hooks.list():
            print(hook.name, hook.direction, hook.place, hook.problem)
    """

    def __init__(
        self, host: Host, files: Callable[[], Configuration], has_secret: Callable[[str], bool]
    ) -> None:
        self._host = host
        self._files = files
        self._has_secret = has_secret

    async def list(self) -> builtins.list[HookRow]:
        """Return the hooks in force, then the webhooks, each sorted by name; never their secrets."""
        return await self.rows(_nothing_waits)

    async def rows(self, state: Callable[[str], WebhookState]) -> builtins.list[HookRow]:
        """Do as `list`, with how each webhook is doing."""
        rows = partial(hook_rows, self._host.settings, self._has_secret, state)
        return await trio.to_thread.run_sync(rows)

    async def get(self, name: str) -> HookRow:
        """Return a hook in force; raise `NotFoundError`."""
        settings = self._host.settings
        row = partial(hook_row, settings, _named(settings.hooks, name), self._has_secret)
        return await trio.to_thread.run_sync(row)

    async def create(self, hook: Hook) -> HookRow:
        """Make a hook, which takes deliveries at once if it has a secret.

        Raises:
            ConflictError: The runtime has no configuration file, or the hook stands in callboard.toml.
            ValidationError: A field is not what it may be; the message names it.
        """
        return await self._change(partial(self._book().create, hook), hook.name)

    async def update(self, hook: Hook) -> HookRow:
        """Change a hook as a whole; with `paused`, it lets nothing in.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: As `create`, or it was changed after its `updated_at_ms`.
            ValidationError: As `create`.
        """
        return await self._change(partial(self._book().update, hook), hook.name)

    async def delete(self, name: str) -> None:
        """Remove a hook; its sessions and its secret stay, and turns that run go on.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: As `create`.
        """
        await self._files().change(partial(self._book().delete, name), self._host)

    async def _change(self, edit: Callable[[], None], name: str) -> HookRow:
        await self._files().change(edit, self._host)
        return await self.get(name)

    def _book(self) -> HookBook:
        return HookBook(self._files().file, self._has_secret, self._host.agents)


def _nothing_waits(webhook: str) -> WebhookState:
    """Return how a webhook is doing where nothing is sent."""
    del webhook
    return WebhookState()


def _named(known: Mapping[str, Hook], name: str) -> Hook:
    if name not in known:
        raise _missing(name, known)
    return known[name]


def _missing(name: str, known: Iterable[str]) -> NotFoundError:
    names = sorted(known)
    there = f"there are: {', '.join(names)}" if names else "there is none"
    return NotFoundError(f"there is no hook {name!r}; {there}.{did_you_mean(name, names)}")
