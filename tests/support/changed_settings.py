"""For every setting a configuration in which it, and nothing else, is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from callboard.config.files import parse_settings
from callboard.config.setting_rows import all_settings
from callboard.config.settings import Settings

STANDING_TEXT = """\
[git]
name = "Ada"
email = "ada@example.org"
[search]
engine = "brave"
base_url = "https://search.example"
[memory]
search = "vectors"
"""
"""Where a setting needs another one beside it, that is there already."""

WRITTEN = {
    "model": 'model = "rehearsal"',
    "policy": 'policy = "strict"',
    "limits.max_arguments_bytes": "[limits]\nmax_arguments_bytes = 2048",
    "network.allow": '[network]\nallow = ["127.0.0.1:8080"]',
    "network.auto": '[network]\nauto = ["docs.python.org"]',
    "search.engine": 'engine = "tavily"',
    "search.base_url": 'base_url = "https://other.example"',
    "memory.search": "[memory]",
    "memory.store": 'store = "lancedb"',
    "sandbox.minimum": '[sandbox]\nminimum = "partial"',
    "sandbox.read_only": '[sandbox]\nread_only = ["/opt/data"]',
    "sandbox.run_as": '[sandbox]\nrun_as = "nobody"',
    "git.name": 'name = "Grace"',
    "git.email": 'email = "grace@example.org"',
    "tests.command": '[tests]\ncommand = ["true"]',
    "server.host": '[server]\nhost = "127.0.0.2"',
    "server.allowed_hosts": '[server]\nallowed_hosts = ["board.example"]',
    "server.allowed_origins": '[server]\nallowed_origins = ["https://board.example"]',
    "server.public_url": '[server]\npublic_url = "https://board.example"',
    "server.console": "[server]\nconsole = false",
    "server.roots": '[server]\nroots = ["/srv"]',
    "openai.items": '[openai]\nitems = "plain"',
    "openai.tool_progress": '[openai]\ntool_progress = "off"',
    "server.log_level": '[server]\nlog_level = "error"',
    "mcp_server.agents": '[mcp_server]\nagents = ["reader"]',
    "mcp_server.tools": '[mcp_server]\ntools = ["read_file"]',
    "mcp_server.agent": '[mcp_server]\nagent = "reader"',
    "mcp_server.workspace": '[mcp_server]\nworkspace = "/srv"',
    "sessions.titles": '[sessions]\ntitles = "words"',
    "workspaces.trust": '[workspaces]\ntrust = ["/srv/mine"]',
    "workspaces.untrusted": '[workspaces]\nuntrusted = ["/srv/theirs"]',
    "telemetry.endpoint": '[telemetry]\nendpoint = "http://127.0.0.1:4318"',
    "telemetry.headers": '[telemetry]\nheaders = { X-Tenant = "board" }',
    "telemetry.sample": "[telemetry]\nsample = 0.5",
    "telemetry.content": '[telemetry]\ncontent = "full"',
    "telemetry.service_name": '[telemetry]\nservice_name = "board"',
    "telemetry.propagate": '[telemetry]\npropagate = ["api.example.com"]',
    "telemetry.signals": '[telemetry]\nsignals = ["traces"]',
    "notify.webhook": '[notify]\nwebhook = "https://hooks.example/x"',
    "store.url": '[store]\nurl = "postgresql://db.example/callboard"',
    "cluster.node": '[cluster]\nnode = "a"',
    "cluster.url": '[cluster]\nurl = "http://a.example"',
    "roots": '[roots]\nprojects = "/srv/projects"',
    "keys.master": '[keys]\nmaster = "keyring"',
    "inactive": 'inactive = ["groq"]',
    "providers": '[providers.house]\nbase_url = "https://house.example/v1"',
    "plugins": "[plugins.extra]\nenabled = false",
    "mcp": '[mcp.clock]\ncommand = ["mcp-server-time"]',
    "agents": '[agents.reader]\nprompt = "You read."',
    "hooks": '[hooks.ci]\nprompt = "Look."',
    "webhooks": '[webhooks.board]\nurl = "https://hooks.example/y"',
    "schedules": '[schedules.morning]\nprompt = "Look."\nevery = "1h"',
    "prices": '[prices."house/qwen"]\ninput = 1.0\noutput = 2.0',
    "rules": '[[rules]]\ntool = "read_file"\nverdict = "deny"',
}
"""Those whose other value is not one more than the default."""


def settings_of(text: str) -> Settings:
    return parse_settings(text, Path("callboard.toml"))


def text_with(name: str) -> str:
    """The standing configuration with another value of this setting."""
    written = WRITTEN.get(name)
    if written is None:
        table, _, field = name.rpartition(".")
        written = f"[{table}]\n{field} = {_other(name)}"
    first = written.partition("\n")[0]
    lines = STANDING_TEXT.splitlines()
    if first == "[memory]":
        return "\n".join(lines[: lines.index("[memory]")])
    if name == "memory.store":
        return "\n".join([*lines, written])
    if "=" in first and "." in name:  # in a table that stands there
        field = name.rpartition(".")[2]
        return "\n".join(written if line.startswith(f"{field} ") else line for line in lines)
    if "=" in first:
        return "\n".join([written, *lines])
    return "\n".join([*lines, written])


def _other(name: str) -> str:
    value: Any = settings_of("")
    for part in name.split("."):
        value = getattr(value, part)
    if isinstance(value, bool):
        return "false" if value else "true"
    assert isinstance(value, int | float), f"say in WRITTEN how {name} is changed"
    return str(value - 1 if value > 2 else value + 1)


STANDING = settings_of(STANDING_TEXT)
CHANGED_TEXT = {name: text_with(name) for name in all_settings()}
CHANGED = {name: settings_of(text) for name, text in CHANGED_TEXT.items()}
