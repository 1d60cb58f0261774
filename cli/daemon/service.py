"""`callboard service`: has the system keep a daemon running, as an account of the machine or of a login."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from ...config.files import config_file, configuration_files
from ...runtime.errors import ConflictError, NotFoundError, StorageError, ValidationError
from ...tools.workspace.roots import check_root
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Data, Roots, data_path
from .roots import own_folders, read_roots
from .service_unit import LABEL, ServicePlan, launchd_plist, systemd_unit

SYSTEM_FOLDER = Path("/etc/systemd/system")
UNIT_NAME = f"{LABEL}.service"
COMMAND_SECONDS = 60.0
"""The time for one command of the system's manager, or for making folders on a slow disk."""

System = Annotated[
    bool, Parameter(help="For the machine instead of your login; needs root.", negative=())
]
User = Annotated[
    str | None,
    Parameter(help="The account that --system runs it as; by default that of whoever ran sudo."),
]
NoStart = Annotated[bool, Parameter(help="Write the unit, and start nothing.", negative=())]

service = App(
    name="service", help="Have the system keep a daemon running: systemd, or launchd on macOS."
)


@service.command
def install(
    *,
    system: System = False,
    user: User = None,
    no_start: NoStart = False,
    roots: Roots = (),
    config: Config = None,
    data: Data = None,
) -> int:
    """Write the unit and start it."""
    _check_rights(is_system=system)
    if user is not None and not system:
        raise ValidationError("--user is for --system: without that it is your own login's")
    account = account_of(user) if system else None  # whose folders it has, too
    folder = data_path(data, None if account is None else account.environ)
    plan = _plan(account, data=folder, config=config, roots=roots)
    if account is not None:
        prepare_folder(account, folder)
    path = unit_path(is_system=system)
    text = launchd_plist(plan) if sys.platform == "darwin" else systemd_unit(plan)
    _write(path, text)
    sys.stdout.write(f"Written: {path}\n  runs: {shlex.join(plan.command)}\n")
    if account is not None:
        sys.stdout.write(f"  as:   {account.name}, with the data in {folder}\n")
    if sys.platform == "darwin":
        sys.stdout.write("  This has not been tried on macOS.\n")
    commands = start_commands(path, is_system=system)
    if no_start:
        sys.stdout.write("".join(f"  next: {shlex.join(command)}\n" for command in commands))
        return ANSWERED
    return _run_all(commands)


@service.command
def uninstall(*, system: System = False) -> int:
    """Stop the unit and remove it; what is stored stays."""
    path = unit_path(is_system=system)
    if not path.exists():
        raise NotFoundError(f"{path} is not there: nothing is installed.")
    _check_rights(is_system=system)
    code = _run_all(stop_commands(path, is_system=system))
    path.unlink()
    sys.stdout.write(f"Removed: {path}\n")
    return code


def unit_path(*, is_system: bool) -> Path:
    """Return the path of the unit."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    if is_system:
        return SYSTEM_FOLDER / UNIT_NAME
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "systemd" / "user" / UNIT_NAME


def start_commands(path: Path, *, is_system: bool) -> list[tuple[str, ...]]:
    """Return the commands that register and start the service."""
    if sys.platform == "darwin":
        return [("launchctl", "load", "-w", str(path))]
    systemctl = ("systemctl",) if is_system else ("systemctl", "--user")
    return [(*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", UNIT_NAME)]


def stop_commands(path: Path, *, is_system: bool) -> list[tuple[str, ...]]:
    """Return the commands that stop and unregister the service."""
    if sys.platform == "darwin":
        return [("launchctl", "unload", "-w", str(path))]
    systemctl = ("systemctl",) if is_system else ("systemctl", "--user")
    return [(*systemctl, "disable", "--now", UNIT_NAME)]


def _plan(
    account: ServiceAccount | None, *, data: Path, config: Path | None, roots: tuple[Path, ...]
) -> ServicePlan:
    command = [sys.executable, "-m", "callboard", "serve", "--data", str(data)]
    file = config_file(config)
    if config is not None or os.environ.get("CALLBOARD_HOME"):
        command += ["--config", str(file.expanduser().absolute())]
    folders, named = read_roots(roots)
    for root in (*folders, *named.values()):
        check_root(root, own_folders(data, configuration_files(file)))
    for word in (*folders, *(f"{name}={root}" for name, root in named.items())):
        command += ["--root", word]
    home = os.environ.get("CALLBOARD_HOME")
    return ServicePlan(
        command=tuple(command),
        is_system=account is not None,
        user="" if account is None else account.name,
        data=data,
        roots=tuple(map(Path, (*folders, *named.values()))),
        environment=(("CALLBOARD_HOME", home),) if home else (),
    )


def _check_rights(*, is_system: bool) -> None:
    if is_system and os.geteuid() != 0:
        raise ValidationError("a system unit is root's: run it with sudo, or leave --system out")
    if is_system and sys.platform == "darwin":
        raise ValidationError("--system is for systemd: leave it out on macOS")


def _write(path: Path, text: str) -> None:
    try:
        if path.exists() and "callboard" not in path.read_text(encoding="utf-8"):
            raise ConflictError(f"{path} is there, and not callboard's: move it away first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}.") from error


def _run_all(commands: list[tuple[str, ...]]) -> int:
    for command in commands:
        if problem := _run(command):
            sys.stdout.write(
                f"  {shlex.join(command)} failed: {problem}\n  Run it by hand later.\n"
            )
            return FAILED
        sys.stdout.write(f"  done: {shlex.join(command)}\n")
    return ANSWERED


def _run(command: tuple[str, ...]) -> str:
    """Run a command; return what went wrong, or an empty string."""
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]} on this machine"
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {COMMAND_SECONDS:g} s"
    return "" if ran.returncode == 0 else (ran.stderr.strip() or f"exit code {ran.returncode}")


class ServiceAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A user account of this machine that a service runs as."""

    name: str
    uid: int
    gid: int
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment from which its folders follow."""
        own = {"HOME": str(self.home)}
        home = os.environ.get("CALLBOARD_HOME")  # the unit has that, too
        return {**own, "CALLBOARD_HOME": home} if home else own


def account_of(name: str | None) -> ServiceAccount:
    """Return the account of that name, or of whoever ran sudo, or of this process."""
    wanted = name or os.environ.get("SUDO_USER")
    try:
        found = pwd.getpwnam(wanted) if wanted else pwd.getpwuid(os.geteuid())
    except KeyError:
        raise ValidationError(
            f"there is no user {wanted!r} on this machine: make one (useradd), or name another",
            field="user",
        ) from None
    return ServiceAccount(
        name=found.pw_name, uid=found.pw_uid, gid=found.pw_gid, home=Path(found.pw_dir)
    )


def prepare_folder(account: ServiceAccount, folder: Path) -> None:
    """Make a folder as that user, if it is missing: root writes into nobody's home."""
    if not folder.exists():
        _make(account, folder)
    owner = folder.stat().st_uid
    if owner != account.uid:
        raise ValidationError(
            f"{folder} belongs to {_name_of(owner)}, and the service would run as {account.name}, who "
            f"can't use it. Say --user {_name_of(owner)}, or another folder with --data, or give it "
            f"away: chown -R {account.name} {folder}",
            field="data",
        )


def _make(account: ServiceAccount, folder: Path) -> None:
    others: dict[str, Any] = {}
    if account.uid != os.geteuid():
        others = {"user": account.uid, "group": account.gid, "extra_groups": ()}
    command = ("mkdir", "-p", "-m", "700", "--", str(folder))
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, **others
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"{folder} can't be made as {account.name}: {error}.") from error
    if ran.returncode:
        raise StorageError(
            f"{folder} can't be made as {account.name} ({ran.stderr.strip()}). Make it and give it "
            f"to {account.name}, or choose another one with --data."
        )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
