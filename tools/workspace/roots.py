"""Where sessions work: roots, below which clients of a daemon may choose workspaces, and workspaces.

A root is named by an operator, in the configuration, on the command line or over the wire, and clients who
may do far less then work below it. So one function decides for all three, and again, for the workspace itself,
whenever a session is made: a link or a mount may have come meanwhile. It also decides for the folder of a command
or a program that works alone: a model does there what its words say, whoever chose the folder.

A root neither is, holds nor lies in a closed place: what the kernel shows of itself and of processes, the
system's programs and settings, keys, and callboard's own data, configuration and code; nor does it hold a link by
which these are found. It is no home and holds none: what a home holds is run at the next login. And it lies on a
file system that only keeps files. A file of the configuration may lie in it under a name that no tool writes.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ...runtime.disk.own_folders import FOLDER as OWN_FOLDERS
from ...runtime.errors import ValidationError
from .paths import PROTECTED_FILES, is_below, shown
from .protected_places import own_code
from .resolver import mount_points

SYSTEM_PLACES = (
    *("/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/boot", "/efi"),
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *(
        "/var/spool/cron",
        "/var/spool/at",
        "/var/lib/dpkg",
        "/var/lib/rpm",
        "/var/lib/systemd",
        "/nix",
        "/snap",
    ),
    *("/System", "/Library", "/Applications", "/Volumes/Preboot"),
)
"""The kernel's views, devices, sockets, and what the system runs and is set up by (the last line: macOS)."""
SOURCES = ("/usr/src", "/usr/local/src")
"""Not closed, but for themselves: images of containers keep the application there."""
HOME_PARENTS = ("/home", "/root", "/Users", "/var/root")
"""Also without an account in them."""
SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store")
"""Folders of a home with keys."""
PERSON_IDS = range(1000, 65534)
"""Accounts of people, by `login.defs`; those of services call folders like /var/www their home."""
ORDINARY_TYPES = frozenset({
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2"),
    *("tmpfs", "ramfs", "overlay", "aufs", "ecryptfs", "squashfs", "erofs", "iso9660", "udf"),
    *("vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "hfs", "hfsplus", "apfs"),
    *("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "gfs2", "ocfs2", "lustre"),
    *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph", "fuse.mergerfs"),
    *("fuse.bindfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.encfs", "fuse.cryfs"),
    *("fuse.vmhgfs-fuse", "fuse.grpcfuse", "fakeowner", "vboxsf", "vmhgfs", "drvfs"),
})  # fmt: skip
"""File systems that keep files and do nothing else. Any other (proc, sysfs, cgroup2, debugfs, binfmt_misc,
devtmpfs, fuse.lxcfs, …) may be a view of the machine, so what is not known is refused."""
VIEW_TYPES = frozenset({
    *("proc", "sysfs", "devtmpfs", "devpts", "mqueue", "hugetlbfs", "binfmt_misc", "autofs", "nsfs"),
    *("cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "selinuxfs", "smackfs", "configfs", "bpf"),
    *("pstore", "efivarfs", "fusectl", "rpc_pipefs", "nfsd", "resctrl", "fuse.lxcfs", "fuse.portal"),
})  # fmt: skip
"""File systems that are views of the machine: closed also to who chooses the folder at their own machine."""
MAX_LINKS = 40
"""Links on the way to a place: as many as Linux follows."""
MOUNTS = Path("/proc/self/mountinfo")
"""The mounts that this process sees. Other systems than Linux have no such file, and no such views."""


def check_root(path: str | os.PathLike[str], own: Sequence[Path] = ()) -> str:
    """Return a folder that may be a root. Blocks on the disk.

    Args:
        path: The folder.
        own: callboard's folders of data and configuration, and the files of its configuration.

    Raises:
        ValidationError: It can't be a root; the message says why.
    """
    text = os.fspath(path)
    if why := why_no_root(text, own):
        raise ValidationError(
            f"{shown(text)} can't be a root for sessions: {why}. Name the folder that the work is in.",
            field="roots",
        )
    return text


def check_workspace(path: str | os.PathLike[str], own: Sequence[Path] = ()) -> None:
    """Raise `ValidationError` for a folder that can't be the workspace of a session. Blocks on the disk.

    Other than a root it may hold callboard's code (a project's virtual environment, which is protected there), and lie
    on a file system that is not known. What a daemon makes in its data folder (`own[0]`) for sessions is open to them.
    """
    real = os.path.realpath(path)
    if any(is_below(real, os.path.realpath(each / OWN_FOLDERS)) for each in own[:1]):
        return
    if why := why_no_root(real, own, is_lone=True):
        raise ValidationError(
            f"{shown(os.fspath(path))} can't be the workspace: {why}. Choose a project's own folder.",
            field="workspace",
        )


def why_no_root(
    path: str, own: Sequence[Path] = (), *, mounts: Path = MOUNTS, is_lone: bool = False
) -> str:
    """Return why a folder can't be a root, or with `is_lone` the workspace of a command or a program that works alone.

    Empty if it can. Blocks on the disk.
    """
    if not path.startswith("/") or "\0" in path:
        return "it is not an absolute path below /"
    real = os.path.realpath(path)
    if real == "/":
        return "it is the whole file system"
    of_people = homes()
    for home in of_people:
        if real == home:
            return f"{home} is a home, where files run programs at the next login"
        if is_below(home, real):
            return f"the home {home} is below it"
    places = [*_closed(own, of_people)]
    for closed in (*places, *_links(own)):
        if is_below(closed, real) and not (is_lone and closed in own_code()):
            return f"it holds {closed}, {_why(closed, own)}"
    return _why_no_workspace(real, own, places, mounts, is_lone=is_lone)


def why_no_workspace(
    real: str, own: Sequence[Path] = (), *, mounts: Path = MOUNTS, is_lone: bool = False
) -> str:
    """Return why no session works in a folder (a real path), whatever the roots are, or an empty text.

    What a workspace must not hold is `open_workspace`'s question, which programs ask as well.
    """
    return _why_no_workspace(real, own, _closed(own, homes()), mounts, is_lone=is_lone)


def _why_no_workspace(
    real: str, own: Sequence[Path], places: Iterable[str], mounts: Path, *, is_lone: bool
) -> str:
    is_source = any(is_below(real, place) for place in SOURCES)
    for closed in (*places, *_on_path()):
        if real == closed or is_below(real, closed):
            if is_source and any(is_below(place, closed) for place in SOURCES):
                continue
            return f"it is or lies in {closed}, {_why(closed, own)}"
    if not os.path.isdir(real):
        return "it is no folder"
    kind = _file_system(real, mounts) if sys.platform == "linux" else "apfs"
    if kind in VIEW_TYPES if is_lone else kind not in ORDINARY_TYPES:
        return f"its file system ({kind or 'unknown'}) is not one that only keeps files"
    return ""


def homes() -> set[str]:
    """Return the real paths of the homes of this user, of root and of people, and of where homes are."""
    found = {*HOME_PARENTS, os.path.expanduser("~")}
    for account in pwd.getpwall():
        if account.pw_uid in PERSON_IDS or account.pw_uid in {0, os.geteuid()}:
            found.add(account.pw_dir)
    real = {os.path.realpath(home) for home in found if home.startswith("/")}
    return real - {"/"}


def _why(closed: str, own: Sequence[Path]) -> str:
    if closed in own_code():
        return "which callboard runs from"
    files = (place for place in own if place.suffix == ".toml" or place.is_file())
    if any(closed in _way(place) for place in files):
        names = " or ".join(sorted(PROTECTED_FILES))
        return (
            "which is closed to sessions: what runs there could change its own rules. Keep the configuration "
            f"elsewhere, or call it {names}, which no tool writes"
        )
    return "which is closed to sessions"


def _closed(own: Sequence[Path], of_people: Iterable[str]) -> Iterator[str]:
    yield from (os.path.realpath(place) for place in SYSTEM_PLACES)
    for place in own:
        real = os.path.realpath(place)
        if os.path.basename(real) not in PROTECTED_FILES:
            yield real
    yield from own_code()
    for home in of_people:  # real paths, so that only the last part can be a link
        for secret in (f"{home}/{name}" for name in SECRET_FOLDERS):
            yield os.path.realpath(secret) if os.path.islink(secret) else secret


def _links(own: Sequence[Path]) -> Iterator[str]:
    """Yield the links by which callboard finds what is its own: whoever may put another there, decides."""
    for place in own:
        *links, _ = _way(place)
        yield from (link for link in links if os.path.basename(link) not in PROTECTED_FILES)


def _way(place: Path) -> list[str]:
    """Return where each link on the way to a place is, and the real path that it leads to."""
    names = [*reversed(place.absolute().parts[1:])]
    found: list[str] = []
    at = "/"
    while names and len(found) < MAX_LINKS:
        name = names.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        path = os.path.join(at, name)
        try:
            target = os.readlink(path)
        except OSError:  # no link
            at = path
            continue
        found.append(path)
        at = "/" if target.startswith("/") else at
        names.extend(reversed(target.split("/")))
    return [*found, at]


def _on_path() -> Iterator[str]:
    """Yield the folders in which this process, and what it starts, looks for programs."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder.startswith("/") and (real := os.path.realpath(folder)) != "/":
            yield real


def _file_system(real: str, mounts: Path) -> str | None:
    """Return the type of the file system that a path lies on: of the last mount on the way to it."""
    deepest, kind = -1, None
    with suppress(OSError):
        for point, its in mount_points(mounts):
            if (point in {"/", real} or is_below(real, point)) and len(point) >= deepest:
                deepest, kind = len(point), its
    return kind
