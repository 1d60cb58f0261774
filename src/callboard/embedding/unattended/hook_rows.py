"""Hooks and webhooks as people see them, and which webhooks there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...config.sections import Webhook
from ...config.setting_rows import shown_url
from ...config.settings import Settings
from ...runtime.hooks.hook import NOTIFY, Hook, key_name, webhook_key_name
from ...runtime.wire.hooks import HookRow


class WebhookState(NamedTuple):
    """How many notices wait for a webhook, how many are dead, and why the last attempt failed, if it did."""

    waiting: int = 0
    dead: int = 0
    problem: str = ""


def webhooks_of(settings: Settings) -> Mapping[str, Webhook]:
    """Return the webhooks by name; the one of `[notify]` hears of questions."""
    if settings.notify.webhook is None:
        return settings.webhooks
    notify = Webhook(name=NOTIFY, url=settings.notify.webhook, events=("question",))
    return {NOTIFY: notify, **settings.webhooks}


def hook_rows(
    settings: Settings,
    has_secret: Callable[[str], bool],
    state: Callable[[str], WebhookState],
) -> list[HookRow]:
    """Return the hooks, then the webhooks, each sorted by name.

    Args:
        settings: Those in force.
        has_secret: Whether the store of keys has one of that name; may block.
        state: How a webhook is doing.
    """
    hooks = [hook_row(settings, hook, has_secret) for _, hook in sorted(settings.hooks.items())]
    for name, webhook in sorted(webhooks_of(settings).items()):
        waiting, dead, problem = state(name)
        hooks.append(
            HookRow(
                name=name,
                direction="out",
                place=shown_url(webhook.url),
                has_secret=has_secret(webhook_key_name(name)),
                paused=webhook.paused,
                events=webhook.events,
                waiting=waiting,
                dead=dead,
                problem="it is paused" if webhook.paused else problem,
            )
        )
    return hooks


def hook_row(settings: Settings, hook: Hook, has_secret: Callable[[str], bool]) -> HookRow:
    """Return a hook as a row; arguments as of `hook_rows`."""
    is_stored, problem = has_secret(key_name(hook.name)), ""
    if not is_stored:
        problem = f"it has no secret: callboard keys set {key_name(hook.name)}"
    elif hook.agent not in {settings.agent().name, *settings.agents}:
        problem = f"there is no agent {hook.agent!r}"
    elif hook.paused:
        problem = "it is paused"
    fields = (f for f in HookRow.__struct_fields__ if f in Hook.__struct_fields__)
    values = {name: getattr(hook, name) for name in fields}
    return HookRow(
        **values,
        direction="in",
        place=f"/hooks/{hook.name}",
        has_secret=is_stored,
        source="callboard.toml" if hook.created_at_ms is None else "managed",
        problem=problem,
    )
