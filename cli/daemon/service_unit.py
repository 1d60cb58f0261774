"""The unit of systemd, and the plist of launchd, under which a daemon is kept running.

The unit is hardened as far as the sandbox of callboard's own programs still works under it: that makes
user namespaces and mounts a fresh /proc in them, which the kernel refuses where parts of /proc are
covered. So ProtectKernelTunables, ProtectKernelLogs, ProtectProc and RestrictNamespaces are left out;
the sandbox has its own, stricter filter of system calls for what models run.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import msgspec

from ...runtime.errors import ValidationError

WATCHDOG_SECONDS = 60
"""Without a heartbeat for so long it is restarted; a commit on a slow disk takes less."""
STOP_SECONDS = 90
"""Time for an orderly end: a drain and the ends of programs."""
LABEL = "callboard"


class ServicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The command of a service, and the account it runs as.

    Attributes:
        command: The program with its arguments.
        is_system: Whether the machine starts it, and not the user's login.
        user: The account that a system unit runs as.
        data: Its data folder.
        roots: Folders that sessions may work in.
        environment: What it must have of the present environment.
        environment_file: A file with more of it, a variable a line.
        credentials: Names of systemd credentials, and the files with them, which root reads.
        cpus: How many cores it may use.
        memory_bytes: How much memory.
        stop_seconds: Time for an orderly end.
    """

    command: tuple[str, ...]
    is_system: bool
    user: str
    data: Path
    roots: tuple[Path, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    environment_file: str = ""
    credentials: tuple[tuple[str, str], ...] = ()
    cpus: float | None = None
    memory_bytes: int | None = None
    stop_seconds: int = STOP_SECONDS


_ANYWHERE = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
LimitCORE=0
UMask=0077
"""
"""Hardening that needs no namespace. AF_NETLINK: the sandbox sets up its loopback with it."""

_SYSTEM = """\
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelModules=yes
DevicePolicy=closed
KeyringMode=private
RemoveIPC=yes
"""
"""Hardening that only the system's manager can do; PrivateTmp hides what others leave in /tmp."""


def systemd_unit(plan: ServicePlan) -> str:
    """Return the text of the unit.

    Raises:
        ValidationError: A path or a value can't stand in one.
    """
    _check(plan)
    program, *arguments = plan.command  # the program's own path has no variables
    service = [
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={' '.join([_quoted(program), *map(_argument, arguments)])}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in plan.environment),
        *([f"EnvironmentFile={_quoted(plan.environment_file)}"] if plan.environment_file else []),
        *(f"LoadCredential={_quoted(f'{name}:{file}')}" for name, file in plan.credentials),
        f"WatchdogSec={WATCHDOG_SECONDS}",
        f"TimeoutStopSec={plan.stop_seconds}",
        "Restart=on-failure",
        "RestartSec=2",
        "KillMode=mixed",
        "OOMPolicy=continue",
        "Delegate=yes",
        *([] if plan.cpus is None else [f"CPUQuota={round(plan.cpus * 100)}%"]),
        *([] if plan.memory_bytes is None else [f"MemoryMax={plan.memory_bytes}"]),
        *_ANYWHERE.splitlines(),
    ]
    if plan.is_system:
        writable = " ".join(_quoted(str(path)) for path in (plan.data, *plan.roots))
        service += [
            f"User={_quoted(plan.user)}",
            *_SYSTEM.splitlines(),
            f"ReadWritePaths={writable}",
        ]
    unit = [
        "[Unit]",
        "Description=callboard, a runtime for AI agents",
        *(["After=network-online.target", "Wants=network-online.target"] if plan.is_system else []),
        "StartLimitIntervalSec=300",
        "StartLimitBurst=10",
        "",
        "[Service]",
        *service,
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if plan.is_system else 'default.target'}",
    ]
    return "\n".join(unit) + "\n"


def launchd_plist(plan: ServicePlan) -> str:
    """Return the text of the plist; it has not been tried on macOS.

    Raises:
        ValidationError: A path or a value can't stand in one.
    """
    import plistlib  # here: only macOS needs it

    _check(plan)

    document = {
        "Label": LABEL,
        "ProgramArguments": list(plan.command),
        "EnvironmentVariables": dict(plan.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": plan.stop_seconds,
        "Umask": 0o077,
    }
    return plistlib.dumps(document).decode()


def _check(plan: ServicePlan) -> None:
    """Raise `ValidationError` for what would end a line, or can't be written."""
    paths = (plan.data, *plan.roots)
    names = (value for pair in plan.environment for value in pair)
    files = (plan.environment_file, *(each for pair in plan.credentials for each in pair))
    for value in (*plan.command, plan.user, *map(str, paths), *names, *files):
        if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in value):
            raise ValidationError(
                f"{value!r} has a control character, or is not UTF-8: no service can be made with it. "
                "Rename the folder."
            )
    for value in filter(None, files):  # these settings know no quotation marks
        if not all(map(_is_plain, value)):
            raise ValidationError(
                f"{value!r} can't stand in a unit: systemd reads the paths of environment files and credentials as they are, "
                "without quotation marks. Choose a path of letters, digits and /._-=:,+@% alone."
            )


def _quoted(word: str) -> str:
    """Return a word for a unit, in which `%` begins what systemd puts in its place."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return text if text and all(map(_is_plain, text)) else f'"{text}"'


def _is_plain(char: str) -> bool:
    return char.isalnum() or char in "/._-=:,+@%"


def _argument(word: str) -> str:
    """Return a word of a command, in which `$` begins a variable, as it does in no other setting."""
    return _quoted(word.replace("$", "$$"))
