"""Which actors Ray shall keep, what their machines lack, and what is said where Ray can't be used: all without Ray."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from callboard.cli.cluster import ray_nodes
from callboard.cli.cluster.file import ClusterFile, load_cluster_file
from callboard.cli.cluster.ray_nodes import connected, why_not_connected
from callboard.cli.cluster.ray_plan import Machine, actor_plans, is_actor_of, too_few
from callboard.runtime.errors import NotFoundError, ValidationError
from support.cli.command import Command
from support.cli.command import command as command

EXAMPLE = Path(__file__).parents[2] / "docs" / "cluster.toml"
SOURCES = Path(__file__).parents[2]
replace = msgspec.structs.replace


@pytest.fixture
def file() -> ClusterFile:
    return load_cluster_file(EXAMPLE)


def machine(number: int, **resources: float) -> Machine:
    has = {"CPU": 8.0, "memory": 8.0 * 2**30, "root:projects": 1.0, **resources}
    return Machine(f"10.0.0.{number}", has)


def test_each_node_is_an_actor_with_a_home_of_its_own(file: ClusterFile) -> None:
    plans = actor_plans(file)
    assert [plan.name for plan in plans] == ["callboard-0", "callboard-1", "callboard-2"]
    assert plans[2].keeper.home == "/var/lib/callboard/callboard-2"
    assert plans[2].keeper.arguments == (
        *("-m", "callboard", "serve", "--config", "/var/lib/callboard/callboard-2/config/callboard.toml"),
        *("--data", "/var/lib/callboard/callboard-2/data", "--expose"),
    )  # fmt: skip
    assert plans[0].resources == {"CPU": 2.0, "memory": 4.0 * 2**30, "root:projects": 0.001}
    assert file.ray is not None
    more = replace(file, ray=replace(file.ray, resources={"ssd": 1.0}))
    assert actor_plans(more)[0].resources["ssd"] == 1.0
    with pytest.raises(ValidationError, match=r"\[ray\] python"):
        actor_plans(replace(file, ray=None))


def test_what_machines_lack_is_said_and_for_how_many(file: ClusterFile) -> None:
    plans = actor_plans(file)
    assert too_few(plans, [machine(1), machine(2), machine(3)]) == ""
    assert too_few(plans, [machine(1), machine(2)]) == (
        "3 nodes need a machine each with 2 CPU, 4 GiB of memory, the resource root:projects; the Ray cluster has 2 "
        "machines like that. 1 machine more must join: `ray start --address=HEAD` there. Or ask for fewer with [ray] "
        "replicas."
    )
    poor = Machine("10.0.0.3", {"CPU": 1.0, "memory": 8.0 * 2**30})
    said = too_few(plans, [machine(1), machine(2), poor])
    assert "10.0.0.3 lacks 2 CPU, the resource root:projects." in said
    assert "must join" not in said
    assert "the Ray cluster has no machine like that" in too_few(plans[:1], [poor])


def test_actors_of_a_cluster_are_known_by_their_names(file: ClusterFile) -> None:
    assert is_actor_of(file, "callboard-0")
    assert is_actor_of(file, "callboard-11")  # of a file that asked for more
    for other in ("callboard", "callboard-x", "callboard-b-0", "board-0", "callboard-"):
        assert not is_actor_of(file, other)


async def test_without_ray_it_says_what_to_install(command: Command) -> None:
    for words in (("up",), ("down",), ("status", "--json")):
        ran = await command("cluster", "ray", *words, str(EXAMPLE))
        assert ran.code == 1
        assert "pip install 'callboard[ray]'" in ran.err
    wrong = await command("cluster", "ray", "upp", str(EXAMPLE))
    assert (wrong.code, 'Did you mean "up"?' in wrong.err) == (2, True)
    wrong = await command("cluster", "ray", "up", str(EXAMPLE), "--force")
    assert (wrong.code, 'Unknown option: "--force"' in wrong.err) == (2, True)


def test_no_cluster_at_the_address_is_said_before_ray_is_asked(
    file: ClusterFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_nodes, "find_spec", lambda _: True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert file.ray is not None
    there = replace(file, ray=replace(file.ray, address=f"127.0.0.1:{port}"))
    with (
        pytest.raises(NotFoundError, match=f"No Ray cluster answers at 127.0.0.1:{port}"),
        connected(there),
    ):
        pass


def test_other_versions_than_the_clusters_are_told_apart_from_no_cluster() -> None:
    said = (
        "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.12.1\n"
        "This process on node 10.0.0.1 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    )
    found = why_not_connected("10.0.0.1:6379", RuntimeError(said))
    assert isinstance(found, ValidationError)
    assert "Python: 3.12.1" in str(found)
    assert "Run the command with the Python that runs Ray" in str(found)
    other = why_not_connected("auto", ConnectionError("Could not find any running Ray instance."))
    assert isinstance(other, NotFoundError)
    assert "`ray start --head` begins one" in str(other)


def test_ray_is_named_in_one_folder_and_imported_by_nothing_else() -> None:
    names = ("runtime", "actors", "tools", "providers", "config", "cli", "gateway", "src")
    using = {
        str(path.relative_to(SOURCES).parent)
        for name in names
        for path in (SOURCES / name).rglob("*.py")
        if '"ray' in (text := path.read_text(encoding="utf-8")) and "import_module" in text
    }
    assert using == {"cli/cluster"}
    program = (
        "import sys, callboard.cli.app as app\n"
        "import callboard.cli.cluster.commands, callboard.cli.cluster.ray_commands\n"
        "app.complete_parser().generate_completion(shell='bash')\n"
        "print('callboard.cli.cluster.ray_nodes' in sys.modules, 'ray' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "True False\n"
