"""`cluster.toml`: one file that says what the nodes of a cluster are, and where they run.

What stands at the top, and in `[store]`, `[roots]`, `[limits]` and `[settings]`, holds for each node, wherever it runs. Each of
`[systemd]`, `[kubernetes]` and `[ray]` is what one way of running them needs besides, and may be left out where it is not used.
No secret stands in the file: it says where the password of the database and the keys of providers are found.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import tomli_w

from ...config.files import parse_settings
from ...config.sections import (
    MAX_CAPACITY,
    MAX_NODE_CHARS,
    MAX_URL_CHARS,
    RootSettings,
    checked_roots,
)
from ...config.toml_reader import NAME, TomlReader
from ...runtime.errors import NotFoundError, StorageError, ValidationError
from ...runtime.store.postgres.address import address_of

MAX_FILE_BYTES = 256 * 1024
"""Two hundred agents with long prompts fit. A list takes up to 3.5 times as much in the callboard.toml that is made of it, which
may have 1 MiB, as a ConfigMap may."""
MAX_REPLICAS = 1000
"""As many nodes as docs/scale.md has figures for."""
MAX_DRAIN_SECONDS = 3600.0
"""Kubernetes and systemd would wait longer; who stops a node does not."""
SAID_HERE = ("cluster", "roots", "store")
"""Tables of callboard.toml that are made from other parts of this file."""
SERVER_SAID_HERE = ("host", "port", "roots", "drain_seconds", "allowed_hosts")

Replicas = Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLICAS)]
ObjectName = Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")]
"""A name of Kubernetes: a label of DNS, short enough that `-999` can be put behind it."""
UNITS = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_ADDRESS = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
_SIZE = re.compile(r"([1-9][0-9]{0,5})(MiB|GiB|TiB)")


class DatabasePlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The database that all nodes share.

    Attributes:
        url: Its address, without a password: `postgresql://USER@HOST/DATABASE`.
        password_file: A file on each machine with the password and nothing else: systemd reads it as root and gives it to the
            node, and with Ray the user of Ray must be able to read it. In Kubernetes it is `PGPASSWORD` of the Secret.
    """

    url: str
    password_file: str = ""

    def __post_init__(self) -> None:
        try:
            address_of(self.url, may_hold_password=False)
        except ValidationError as error:
            raise ValueError(f"url: {_plain(str(error))}") from None
        _check_path("password_file", self.password_file)


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one node may use.

    Attributes:
        cpus: Cores. Ray only counts them, and holds nobody to them.
        memory: Like `4GiB`; the programs that its tools run are in it. Ray only counts it.
    """

    cpus: Annotated[float, msgspec.Meta(gt=0, le=1024)] | None = None
    memory: str | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            _check_size("memory", self.memory)

    @property
    def memory_bytes(self) -> int | None:
        """The memory in bytes."""
        return None if self.memory is None else int(self.memory[:-3]) * UNITS[self.memory[-3:]]


class SystemdNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine with systemd.

    Attributes:
        url: Where the other nodes and clients reach it: `http://a.example:8790`.
        capacity: How large its share of the sessions is, compared with that of others.
        roots: The names of the roots that it has; by default all.
    """

    url: Annotated[str, msgspec.Meta(max_length=MAX_URL_CHARS)]
    capacity: Annotated[int, msgspec.Meta(ge=1, le=MAX_CAPACITY)] = 1
    roots: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        try:
            where = urlsplit(self.url)
            is_url = where.scheme in {"http", "https"} and bool(where.hostname) and where.port != 0
        except ValueError:
            is_url = False
        if not is_url or not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise ValueError(f"url: {self.url!r} is not a URL like http://a.example:8790")


class SystemdPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machines on each of which systemd keeps one node running.

    Attributes:
        python: The Python in which callboard is installed.
        user: The account that it runs as.
        data: The data folder.
        nodes: The machines, by the names of their nodes.
    """

    python: str
    user: Annotated[str, msgspec.Meta(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")] = "callboard"
    data: str = "/var/lib/callboard"
    nodes: dict[str, SystemdNode] = {}

    def __post_init__(self) -> None:
        _check_path("python", self.python)
        _check_path("data", self.data)


class KubernetesPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A StatefulSet.

    Attributes:
        image: The image, in whose Python callboard is installed.
        replicas: How many nodes.
        namespace: The namespace; it must be there.
        secret: The Secret whose entries are variables of each node's environment, like `PGPASSWORD` and keys of
            providers. It must be there: no manifest holds a secret.
        python: The Python of the image.
        user: The user and group that it runs as, by number.
        storage: The size of each node's volume for its data folder.
        storage_class: The class of these volumes; by default the cluster's own.
        sandbox: Whether pods may make user namespaces, which the sandbox of programs needs. Without, no program of a model
            is run, and those tools are not offered.
        claims: The claim of a volume for each root, by the root's name. A root that all nodes share takes a volume that many can
            write (ReadWriteMany).
        node_selector: Labels that machines must have.
    """

    image: Annotated[str, msgspec.Meta(pattern=r"^[^\s]+$")]
    replicas: Replicas = 3
    namespace: ObjectName = "default"
    secret: ObjectName = "callboard"
    python: str = "python3"
    user: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 10001
    storage: str = "10GiB"
    storage_class: str | None = None
    sandbox: bool = False
    claims: dict[str, str] = {}
    node_selector: dict[str, str] = {}

    def __post_init__(self) -> None:
        _check_size("storage", self.storage)


class RayPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A running Ray cluster, on whose machines actors keep nodes running.

    Attributes:
        address: Where it is: `HOST:PORT` of its head. By default the one that runs on this machine.
        replicas: How many nodes, one a machine.
        python: The Python on each machine in which callboard is installed.
        data: The folder on each machine below which a node has its data folder.
        resources: What else a machine must have, in Ray's own words: `ray start --resources '{"ssd": 1}'`. Each root counts as the
            resource `root:NAME`.
        start_seconds: How long `up` waits until the nodes serve.
    """

    python: str
    address: str = "auto"
    replicas: Replicas = 3
    data: str = "/var/lib/callboard"
    resources: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    start_seconds: Annotated[float, msgspec.Meta(gt=0, le=MAX_DRAIN_SECONDS)] = 60.0

    def __post_init__(self) -> None:
        if self.address != "auto" and not _ADDRESS.fullmatch(self.address):
            raise ValueError(
                f"address: {self.address!r} is not HOST:PORT of a head, like 10.0.0.1:6379"
            )
        _check_path("python", self.python)
        _check_path("data", self.data)


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.

    Attributes:
        name: What units, objects of Kubernetes and actors of Ray are called.
        host: The address that each node listens on; what travels there is not encrypted.
        port: The port.
        drain_seconds: Time that turns have to end when a node stops.
        allowed_hosts: Further names by which clients may call a node, as in `[server]`.
        environment_file: A file on each machine with a variable a line, `NAME=value`, like keys of providers; for systemd and Ray.
        store: The database.
        roots: Folders of each machine below which sessions work, by name.
        limits: What a node may use.
        settings: What else the callboard.toml of each node says.
        systemd: How systemd runs them.
        kubernetes: How Kubernetes does.
        ray: How Ray does.
    """

    store: DatabasePlace
    name: ObjectName = "callboard"
    host: str = "0.0.0.0"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8790
    drain_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_DRAIN_SECONDS)] = 60.0
    allowed_hosts: tuple[str, ...] = ()
    environment_file: str = ""
    roots: dict[str, str | RootSettings] = {}
    limits: NodeLimits = NodeLimits()
    settings: dict[str, Any] = {}
    systemd: SystemdPlace | None = None
    kubernetes: KubernetesPlace | None = None
    ray: RayPlace | None = None

    def __post_init__(self) -> None:
        _check_path("environment_file", self.environment_file)
        try:
            checked_roots(self.roots)
        except ValueError as error:
            raise ValueError(f"roots: {error}") from None
        if self.systemd is not None:
            for name, node in self.systemd.nodes.items():
                if extra := set(node.roots or ()) - self.roots.keys():
                    raise ValueError(
                        f"systemd: nodes: {name}: there is no root {min(extra)!r} in [roots]"
                    )
        if self.kubernetes is not None and (extra := self.kubernetes.claims.keys() - self.roots):
            raise ValueError(f"kubernetes: claims: there is no root {min(extra)!r} in [roots]")

    @property
    def named_roots(self) -> dict[str, RootSettings]:
        """The roots, each with its folder."""
        return checked_roots(self.roots)


def load_cluster_file(path: Path) -> ClusterFile:
    """Read the file; blocks on the disk.

    Raises:
        NotFoundError: There is no such file.
        StorageError: It can't be read.
        ValidationError: It has a mistake; the error names file, line and setting.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(
            f"There is no {path}: docs/scale.md has an example of what stands in it."
        ) from None
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror or error}.") from error
    if len(data) > MAX_FILE_BYTES:
        raise ValidationError(f"{path} has more than {MAX_FILE_BYTES} bytes: it is not used.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValidationError(f"{path} is not text in UTF-8: it is not used.") from None
    return parse_cluster_file(text, path)


def parse_cluster_file(text: str, path: Path) -> ClusterFile:
    """Return what a text says; `path` is only named in errors. Raises `ValidationError`."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{path} is not TOML: {error}. Nothing of it was used.") from error
    reader = TomlReader(text, path)
    # A mistake in a table of tables is found at its own line when that table is looked at alone.
    for table, kind in (("systemd", SystemdPlace), ("kubernetes", KubernetesPlace), ("ray", RayPlace),
                        ("store", DatabasePlace), ("limits", NodeLimits)):  # fmt: skip
        _look(reader, document, table, kind)
    found = reader.convert(document, ClusterFile, ())
    _check_settings(found, text, path, reader)
    return found


def _look(
    reader: TomlReader, document: Mapping[str, Any], table: str, kind: type[msgspec.Struct]
) -> None:
    its = document.get(table)
    if not isinstance(its, dict):
        return
    if table == "systemd" and isinstance(nodes := its.get("nodes"), dict):
        for name, node in nodes.items():
            if not NAME.fullmatch(name) or len(name) > MAX_NODE_CHARS:
                raise reader.error(
                    (table, "nodes", name), "a node's name has letters, digits, '.', '_' and '-'"
                )
            reader.convert(node, SystemdNode, (table, "nodes", name))
    reader.convert(its, kind, (table,))


def _check_settings(found: ClusterFile, text: str, path: Path, reader: TomlReader) -> None:
    """Raise `ValidationError` for what no callboard.toml may say, at its line in this file."""
    for table in SAID_HERE:
        if table in found.settings:
            raise reader.error(
                ("settings", table), "it is made from the other tables of this file: say it there"
            )
    server = found.settings.get("server", {})
    for name in SERVER_SAID_HERE if isinstance(server, dict) else ():
        if name in server:
            where = "[roots]" if name == "roots" else "the top of this file"
            raise reader.error(("settings", "server", name), f"say it at {where}")
    parse_settings(_settings_text(found.settings, text), path)


_HEADER = re.compile(r"\s*(\[\[?)\s*settings(?:\.(.*?))?\s*(\]\]?)\s*(?:#.*)?$")
_ANY_HEADER = re.compile(r"\s*\[\[?[A-Za-z0-9_\"']")


def _settings_text(settings: Mapping[str, Any], text: str) -> str:
    """Return `[settings]` as a callboard.toml, where possible with each setting at the line that it has in the whole file."""
    lines: list[str] = []
    is_its = False
    for line in text.split("\n"):
        if header := _HEADER.match(line):
            is_its = True
            lines.append(f"{header[1]}{header[2]}{header[3]}" if header[2] else "")
        elif _ANY_HEADER.match(line):
            is_its = False
            lines.append("")
        else:
            lines.append(line if is_its else "")
    placed = "\n".join(lines)
    try:
        if tomllib.loads(placed) == settings:
            return placed
    except ValueError:
        pass  # a header in a text of several lines, or a table in braces
    return tomli_w.dumps(settings)


def _check_path(field: str, path: str) -> None:
    if path and (problem := _why_no_path(path)):
        raise ValueError(f"{field}: {problem}")


def _why_no_path(path: str) -> str:
    if path.startswith("/") and path.isprintable() and ".." not in path.split("/"):
        return ""
    return f"{path!r} is not an absolute path, like /srv/projects"


def _check_size(field: str, size: str) -> None:
    if not _SIZE.fullmatch(size):
        raise ValueError(f"{field}: {size!r} is not a size like 512MiB or 4GiB")


def _plain(problem: str) -> str:
    return problem.rstrip(".")
