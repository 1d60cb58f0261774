"""`cluster.toml` is read whole or not at all, and every mistake is named with its line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from callboard.cli.cluster.file import (
    MAX_FILE_BYTES,
    ClusterFile,
    load_cluster_file,
    parse_cluster_file,
)
from callboard.cli.cluster.node_plan import plan_node, stop_seconds
from callboard.cli.cluster.systemd import systemd_files
from callboard.config.files import MAX_FILE_BYTES as LARGEST
from callboard.config.files import parse_settings
from callboard.runtime.errors import NotFoundError, ValidationError

EXAMPLE = Path(__file__).parents[2] / "docs" / "cluster.toml"
FILE = Path("cluster.toml")


def changed(old: str, new: str) -> ClusterFile:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    return parse_cluster_file(text.replace(old, new), FILE)


def line_of(text: str) -> int:
    return next(
        number
        for number, line in enumerate(EXAMPLE.read_text(encoding="utf-8").splitlines(), 1)
        if text in line
    )


def test_the_example_is_read() -> None:
    found = load_cluster_file(EXAMPLE)
    assert found.systemd is not None
    assert found.kubernetes is not None
    assert found.ray is not None
    assert sorted(found.systemd.nodes) == ["a", "b"]
    assert found.limits.memory_bytes == 4 * 2**30


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("port = 8790", "prot = 8790", r"prot: there is no such setting; did you mean 'port'\?"),
        ("cpus = 2", "cpu = 2", r"limits.cpu: there is no such setting; did you mean 'cpus'\?"),
        ("capacity = 2 ", "capacty = 2 ", r"systemd.nodes.b.capacty: .* did you mean 'capacity'\?"),
        ("idle_seconds = 120", "idle_second = 1", r"limits.idle_second: .*'idle_seconds'\?"),
        ('policy = "balanced"', 'policy = "loose"', "choices: auto, balanced, strict"),
        ('memory = "4GiB"', 'memory = "4G"', "'4G' is not a size like 512MiB or 4GiB"),
        ('"http://b.example:8790"', '"b.example"', "'b.example' is not a URL like http://"),
        ('address = "10.0.0.1:6379"', 'address = "ray://10.0.0.1"', "is not HOST:PORT of a head"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, complaint: str) -> None:
    assert changed(old, old).name  # the same file without the mistake is read
    with pytest.raises(ValidationError, match=complaint) as raised:
        changed(old, new)
    assert str(raised.value).startswith(f"cluster.toml, line {line_of(old)}: ")


def test_the_password_of_the_database_is_never_in_it() -> None:
    with pytest.raises(
        ValidationError, match="holds a password, which others could read"
    ) as raised:
        changed("//callboard@db", "//callboard:hunter2@db")
    assert "hunter2" not in str(raised.value)


def test_what_is_made_of_its_other_tables_is_said_once() -> None:
    with pytest.raises(ValidationError, match=r"settings\.store: .* say it there"):
        changed("[settings.limits]\nidle_seconds = 120", '[settings.store]\nurl = "x"')
    with pytest.raises(ValidationError, match=r"settings\.server\.port: say it at the top"):
        changed("[settings.limits]\nidle_seconds = 120", "[settings.server]\nport = 1")
    found = changed("[settings.limits]\nidle_seconds = 120", "[settings.server]\nping_seconds = 5")
    plan = plan_node(found, configuration="/c", data="/d")
    server = tomllib.loads(plan.configuration)["server"]
    assert (server["ping_seconds"], server["port"]) == (5, 8790)


def test_a_root_is_what_a_nodes_own_configuration_takes() -> None:
    for bad, complaint in (
        ('projects = "srv/projects"', "'srv/projects' is not an absolute path"),
        ('Projects = "/srv/projects"', "is no name of a root"),
        ('projects = { path = "/srv", share = true }', "there is no such setting"),
        ('projects = "/srv"\nmore = "/srv/more"', "a session would belong to both"),
    ):
        with pytest.raises(ValidationError, match=complaint):
            changed('projects = "/srv/projects"', bad)
    found = changed('projects = "/srv/projects"', 'projects = { path = "/srv", shared = true }')
    plan = plan_node(found, configuration="/c", data="/d")
    settings = parse_settings(plan.configuration, Path("callboard.toml"))
    assert settings.named_roots["projects"].shared


def test_a_machine_may_have_some_of_the_roots() -> None:
    more = 'projects = "/srv/projects"\nmore = "/srv/more"'
    text = EXAMPLE.read_text(encoding="utf-8").replace('projects = "/srv/projects"', more)
    text = text.replace("capacity = 2 ", 'roots = ["more"] ').replace(
        "[kubernetes.claims]", "[kubernetes.claims]\nmore = 'm'"
    )
    found = parse_cluster_file(text, FILE)
    files = systemd_files(found)
    assert tomllib.loads(files["b/callboard.toml"])["roots"] == {"more": "/srv/more"}
    assert "ReadWritePaths=/var/lib/callboard /srv/more\n" in files["b/callboard.service"]
    assert len(tomllib.loads(files["a/callboard.toml"])["roots"]) == 2
    with pytest.raises(ValidationError, match="nodes: b: there is no root 'less'"):
        parse_cluster_file(text.replace('roots = ["more"]', 'roots = ["less"]'), FILE)


def test_a_claim_is_for_a_root_that_there_is() -> None:
    with pytest.raises(ValidationError, match="there is no root 'others' in"):
        changed('projects = "projects"', 'others = "projects"')


def test_settings_in_unusual_places_are_checked_too() -> None:
    start = '[store]\nurl = "postgresql://db/callboard"\n'
    text = f'{start}[settings]\nagents = {{ a = {{ promt = "x" }} }}\n'
    with pytest.raises(ValidationError, match=r"agents\.a\.promt"):
        parse_cluster_file(text, FILE)
    text = f'{start}[settings.agents.a]\nprompt = """\n[roots]\n"""\n'
    assert parse_cluster_file(text, FILE).settings["agents"]["a"]["prompt"] == "[roots]\n"
    text = f'{start}[[settings.rules]]\ntool = "shell"\nverdict = "denied"\n'
    with pytest.raises(ValidationError, match="line 5"):
        parse_cluster_file(text, FILE)


def test_a_file_that_can_not_be_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    with pytest.raises(NotFoundError, match=r"docs/scale\.md has an example"):
        load_cluster_file(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ValidationError, match="UTF-8"):
        load_cluster_file(file)
    file.write_text("[store")
    with pytest.raises(ValidationError, match="is not TOML"):
        load_cluster_file(file)
    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ValidationError, match="has more than"):
        load_cluster_file(file)
    file.write_text('[store]\nurl = "postgresql://db/callboard"\n')
    assert load_cluster_file(file).name == "callboard"


def test_a_node_is_started_with_a_configuration_that_callboard_reads() -> None:
    found = load_cluster_file(EXAMPLE)
    plan = plan_node(
        found, configuration="/c.toml", data="/d", node="b", url="http://b.example:8790", capacity=2
    )
    settings = parse_settings(plan.configuration, Path("callboard.toml"))
    assert (settings.cluster.node, settings.cluster.capacity) == ("b", 2)
    assert settings.store.url == found.store.url
    assert settings.server.drain_seconds == 60
    assert settings.limits.idle_seconds == 120
    assert plan.arguments == (
        *("-m", "callboard", "serve", "--config", "/c.toml", "--data", "/d", "--expose"),
    )
    assert stop_seconds(found) > found.drain_seconds + 30


def test_what_only_this_machine_reaches_is_not_exposed() -> None:
    found = changed('host = "0.0.0.0"', 'host = "127.0.0.1"')
    assert "--expose" not in plan_node(found, configuration="/c", data="/d").arguments


def test_the_longest_file_makes_a_configuration_that_a_node_reads() -> None:
    start = '[store]\nurl = "postgresql://db/callboard"\n[settings.mcp.a]\ncommand = "a"\nargs = ['
    text = start + '"",' * ((MAX_FILE_BYTES - len(start) - 2) // 3) + "]\n"
    assert len(text) > MAX_FILE_BYTES - 3
    try:
        found = parse_cluster_file(text, FILE)
    except ValidationError:  # so many arguments are refused anyway
        found = parse_cluster_file('[store]\nurl = "postgresql://db/callboard"\n', FILE)
        found = msgspec.structs.replace(found, settings=tomllib.loads(text)["settings"])
    made = plan_node(found, configuration="/c", data="/d").configuration
    assert len(text) < len(made.encode()) < LARGEST
