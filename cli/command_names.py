"""The commands by name, for what is said about a mistyped one."""

from __future__ import annotations

GROUPS = frozenset(
    {
        "keys",
        "providers",
        "models",
        "policy",
        "grants",
        "memory",
        "session",
        "skills",
        "token",
        "service",
    }
)
"""Those with commands of their own."""

COMMANDS = frozenset(
    {
        "run",
        "chat",
        "record",
        "tools",
        "doctor",
        "sessions",
        "show",
        "usage",
        "approvals",
        "approve",
        "deny",
        "undo",
        "attach",
        "backup",
        "restore",
        "replay",
        "upgrade",
        "compact",
        "protocol",
        "serve",
        "status",
        "stop",
        "logs",
    }
)
"""Those without commands of their own, whose options are looked through for a mistyped one."""
