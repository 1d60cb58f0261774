"""What a sandboxed program sees of the machine, read-only: the system, and the tools on PATH.

A program must find its interpreter, its libraries and the installation that they belong to, and nothing
private. So whole home folders, /etc and /var are never shown. Of a home folder only the folders on PATH
are, and the places where version managers keep their programs; files that are known to hold credentials
read as empty even there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ...processes.system_programs import find_system_program

SYSTEM_LINKS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
"""Links into /usr on merged systems, folders of their own on others."""

ETC = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
"""What programs need of /etc. Users and groups are made up."""

ETC_PATTERNS = ("java-*", "python3*")

CREDENTIALS = (
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".yarnrc",
    ".yarnrc.yml",
    "auth.json",
    "credentials",
    "credentials.toml",
    "etc/npmrc",
    "etc/pip.conf",
    "etc/pip.ini",
    "lib/node_modules/npm/npmrc",
    "pip.conf",
    "share/npmrc",
)
"""Files in which tools keep tokens, relative to an installation or to a folder that is shown."""

MAX_INSTALLATIONS = 512
"""Below the folders of version managers: more versions than anybody keeps."""
INSTALLATION_DEPTH = 3
"""`.volta/tools` has its installations at `image/node/20`."""

MANAGED = (
    ".asdf/installs",
    ".fnm/node-versions",
    ".local/pipx/venvs",
    ".local/share/fnm/node-versions",
    ".local/share/mise/installs",
    ".local/share/pipx/venvs",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".nvm/versions",
    ".pyenv/versions",
    ".rustup/toolchains",
    ".rustup/settings.toml",
    ".sdkman/candidates",
    ".volta/tools",
)
"""Where version managers keep their programs, below the home folder."""

MAX_PATH_FOLDERS = 64
"""Folders of PATH that count: more than anybody has."""

_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
_SYSTEM_ETC = (*_SYSTEM, "/etc")
_NEVER = frozenset({"/", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var"})
_MIXED = frozenset({"/media", "/mnt", "/srv"})
"""Where data lies beside programs: only installations in them are shown whole."""
_WHOLE = _NEVER | _MIXED | {"/opt"}


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """What a program sees.

    Attributes:
        links: Links at the top: where they lead, and their paths.
        shown: Paths that are shown as they are, read-only; outer ones first.
        masked: Files below them that read as empty.
        path: PATH inside.
        environment: Variables that say where tools are.
        unread: What is not shown because the user who runs programs can't read it.
    """

    links: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]
    masked: tuple[str, ...]
    path: str
    environment: Mapping[str, str]
    unread: tuple[str, ...] = ()


def find_view(environ: Mapping[str, str], read_only: Sequence[str] = ()) -> HostView:
    """Return what programs see on this machine, by PATH and HOME of `environ`; looks at the disk.

    `read_only` are further folders that the operator named; raises `ValueError` when one is missing.
    """
    home = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    folders = list(_path_folders(environ, home))
    own = os.path.join(sys.base_prefix, "bin")
    if not any(os.access(os.path.join(each, "python3"), os.X_OK) for each in folders):
        folders.append(own)  # there is always a Python
    roots: list[str] = [root for each in folders for root in _roots_of(each, home)]
    roots += [path for each in MANAGED if os.path.exists(path := os.path.join(home, each))]
    roots += _roots_of(own, home)
    etc = [f"/etc/{name}" for name in ETC]
    etc += [str(found) for pattern in ETC_PATTERNS for found in sorted(Path("/etc").glob(pattern))]
    try:
        named = [_named(path) for path in read_only]
    except ValueError as error:
        raise ValueError(f"sandbox.{error}") from None
    links: list[tuple[str, str]] = []
    system = ["/usr"]
    for path in (f"/{name}" for name in SYSTEM_LINKS):
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            system.append(path)
    shown = _outermost([*system, *roots, *named, *(each for each in etc if os.path.exists(each))])
    masked = [path for root in shown for path in _credentials(root)]
    return HostView(
        links=tuple(links),
        shown=shown,
        masked=tuple(masked),
        path=os.pathsep.join(dict.fromkeys([*folders, "/usr/bin", "/bin"])),
        environment=_places(home, environ),
    )


def _named(path: str) -> str:
    """Return where a folder of the operator's really is; raise `ValueError` when it is missing."""
    if not os.path.exists(path):
        raise ValueError(
            f"read_only: {path} is not there, or can't be reached. Correct the path in "
            "callboard.toml, or take it out."
        )
    return os.path.realpath(path)


def _path_folders(environ: Mapping[str, str], home: str) -> Iterator[str]:
    """Yield the folders of PATH; for pyenv's scripts, those of the versions that they lead to."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep)[:MAX_PATH_FOLDERS]:
        if not folder.startswith("/") or not os.path.isdir(folder):
            continue
        if folder.rstrip("/").endswith("/.pyenv/shims"):
            yield from _pyenv_folders(Path(folder).parent, environ)
            continue
        if folder.rstrip("/").endswith("/.cargo/bin"):
            yield from _rustup_folder(Path(home))
        # Never a whole home folder, nor one such as /etc.
        if os.path.realpath(folder) not in _NEVER and os.path.realpath(folder) != home:
            yield folder.rstrip("/")


def _rustup_folder(home: Path) -> Iterator[str]:
    """Yield the toolchain that programs in ~/.cargo/bin lead to: they themselves want to write."""
    try:
        said = (home / ".rustup" / "settings.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    found = re.search(r'^default_toolchain = "([A-Za-z0-9._-]+)"$', said, re.MULTILINE)
    if found and (folder := home / ".rustup" / "toolchains" / found[1] / "bin").is_dir():
        yield str(folder)


def _pyenv_folders(root: Path, environ: Mapping[str, str]) -> Iterator[str]:
    try:
        said = environ.get("PYENV_VERSION") or (root / "version").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    for version in said.replace(":", "\n").split():
        folder = root / "versions" / version / "bin"
        if "/" not in version and version != ".." and folder.is_dir():
            yield str(folder)


def _roots_of(folder: str, home: str) -> list[str]:
    """Return what must be shown so that programs of a folder run."""
    real = os.path.realpath(folder)
    if is_within(real, _SYSTEM):
        return []
    parent = os.path.dirname(real)
    whole = os.path.basename(real) in {"bin", "sbin", "condabin"} and parent not in _WHOLE
    if is_within(real, (home,)):
        # In a home folder, what lies beside the programs may be anything.
        whole = whole and _is_prefix(parent)
    elif is_within(parent, tuple(_NEVER - {"/"} | _MIXED)):
        whole = whole and _is_prefix(parent)
    roots = [folder, real, *([parent] if whole else [])]
    if (base := _base_of_venv(parent)) is not None and base not in _WHOLE:
        roots += [] if is_within(base, _SYSTEM) else [base]
    return roots


def _is_prefix(folder: str) -> bool:
    """Return whether a folder is an installation of something, and nothing else."""
    return (
        os.path.isfile(os.path.join(folder, "pyvenv.cfg"))
        or any(
            os.path.isdir(os.path.join(folder, *names))
            for names in (("lib", "node_modules"), ("lib", "rustlib"), ("conda-meta",))
        )
        or bool(next(Path(folder, "lib").glob("python3.*/os.py"), None))
    )


def _base_of_venv(prefix: str) -> str | None:
    try:
        lines = Path(prefix, "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "home":
            base = os.path.dirname(os.path.realpath(value.strip()))
            return base if _is_prefix(base) else None
    return None


def _places(home: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables for tools that would look for their programs in the home folder."""
    found = {"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv", "VOLTA_HOME": ".volta"}
    places = {
        name: os.path.join(home, below)
        for name, below in found.items()
        if os.path.isdir(os.path.join(home, below))
    }
    if "VIRTUAL_ENV" in environ:
        places["VIRTUAL_ENV"] = environ["VIRTUAL_ENV"]
    return places


def _credentials(root: str) -> Iterator[str]:
    """Yield the files with credentials in what is shown, and in the installations below it."""
    waiting, looked_at = [(root, 0)], 0
    while waiting and looked_at < MAX_INSTALLATIONS:
        place, depth = waiting.pop()
        looked_at += 1
        for name in CREDENTIALS:
            if os.path.isfile(path := os.path.join(place, name)):
                yield path
        is_installation = os.path.isdir(os.path.join(place, "bin"))
        if depth < INSTALLATION_DEPTH and not is_installation and not is_within(place, _SYSTEM_ETC):
            with suppress(OSError), os.scandir(place) as entries:
                folders = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
                waiting += [(each, depth + 1) for each in folders]


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return each path once, without those that lie below another one."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not is_within(path, tuple(kept)):
            kept.append(path)
    return tuple(kept)


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Return whether a path is one of these, or lies below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def with_folders(view: HostView, paths: Sequence[str]) -> HostView:
    """Return a view that has these paths too, as they are named and where they really are; looks at the disk.

    Raises:
        ValueError: One of them is not there.
    """
    named = [place for path in paths for place in (path.rstrip("/"), _named(path))]
    more = tuple(path for path in _outermost(named) if not is_within(path, view.shown))
    masked = tuple(path for root in more for path in _credentials(root))
    return msgspec.structs.replace(
        view, shown=(*view.shown, *more), masked=tuple(dict.fromkeys((*view.masked, *masked)))
    )


def hidden_places(view: HostView, words: Sequence[str]) -> tuple[str, ...]:
    """Return what to show for those words of a command that are paths here which the view hides.

    Of a program in an installation that is the installation. Looks at the disk.
    """
    found = []
    for word in words:
        path = word.rpartition("=")[2]
        if not path.startswith("/") or not os.path.lexists(path):
            continue
        if is_within(path, (*view.shown, "/dev", "/proc")):
            continue
        if is_within(os.path.dirname(path), tuple(link for _, link in view.links)):
            continue
        prefix = os.path.dirname(os.path.dirname(path))
        found.append(prefix if _is_prefix(prefix) else path)
    return tuple(dict.fromkeys(found))


def inner_python(view: HostView) -> str:
    """Return a Python that programs with this view can run: our own, or the system's.

    PATH is not asked, since it may lead into a workspace: what a model put there would say what the
    sandbox's test found, and in the second tier run outside.
    """
    own = os.path.join(sys.base_prefix, "bin", "python3")
    if any(str(parent) in view.shown for parent in Path(own).parents):
        return own
    return find_system_program("python3") or own
