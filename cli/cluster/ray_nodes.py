"""What `callboard cluster ray` does with a running Ray cluster: actors that keep nodes, one a machine.

Ray is imported here and nowhere else, and only when one of these commands runs. It places keepers and starts them again where a machine is gone; what a
node does, it does without Ray.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from ...runtime.errors import ConflictError, NotFoundError, StorageError, ValidationError
from . import keeper
from .file import ClusterFile
from .ray_plan import ActorPlan, Machine, actor_plans, is_actor_of, ray_place, too_few

NAMESPACE = "callboard"
"""Of Ray, in which actors have their names."""
REACH_SECONDS = 5.0
"""For a head that answers at all; Ray itself would try for a minute."""
PLACE_SECONDS = 30.0
"""Until Ray has set apart what the actors need."""
STATE_SECONDS = 10.0
"""For an actor's answer; one whose process is started again takes some seconds."""
LOOK_SECONDS = 0.2
"""Between two looks at nodes that start."""
CALLS_AT_ONCE = 4
"""Of one actor: its state is asked for while it drains."""


@contextmanager
def connected(file: ClusterFile) -> Generator[Any]:
    """Give the module `ray`, connected to the cluster that the file names.

    Raises:
        ValidationError: Ray is not installed, or another version of it, or of Python, than the cluster's.
        NotFoundError: No cluster is there.
    """
    place = ray_place(file)
    if find_spec("ray") is None:
        raise ValidationError(
            "`callboard cluster ray` needs Ray: pip install 'callboard[ray]'. Without it, `callboard cluster manifest` "
            "writes what systemd or Kubernetes need.",
            field="ray",
        )
    if place.address != "auto":
        _reach(place.address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # the cluster's head decides about itself
    ray = importlib.import_module("ray")
    logging.getLogger("ray").setLevel(logging.ERROR)  # what concerns this command is said below
    try:
        ray.init(
            address=place.address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise why_not_connected(place.address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def why_not_connected(address: str, error: Exception) -> NotFoundError | ValidationError:
    """Return what a failure of Ray to connect means."""
    said = " ".join(str(error).split())
    if "ersion mismatch" in said:
        return ValidationError(
            f"The Ray cluster at {address} runs with another version of Ray or Python than this command: {said} "
            "Run the command with the Python that runs Ray; the nodes themselves may have any ([ray] python).",
            field="ray",
        )
    return NotFoundError(
        f"No Ray cluster can be used at {address}: {said or type(error).__name__}. This machine must be one of it: "
        "`ray start --head` begins one, `ray start --address=HOST:6379` joins it."
    )


def _reach(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise NotFoundError(
            f"No Ray cluster answers at {address}: {getattr(error, 'strerror', None) or error}. `ray start --head` "
            "begins one there; [ray] address says where it is."
        ) from error


def begin_nodes(ray: Any, file: ClusterFile) -> list[str]:
    """Place an actor for each node, or have those that were drained begin again; return the names.

    Raises:
        ConflictError: They run already.
        ValidationError: Too few machines have what the nodes need.
        StorageError: Ray could not place them.
    """
    plans = actor_plans(file)
    if there := _actors(ray, file):
        return _begin_again(ray, file, there)
    if lacks := too_few(plans, _machines(ray)):
        raise ValidationError(lacks, field="ray.replicas")
    util = importlib.import_module("ray.util")
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    group = util.placement_group(
        [dict(plan.resources) for plan in plans],
        strategy="STRICT_SPREAD",
        name=file.name,
        lifetime="detached",
    )
    made: list[Any] = []
    try:
        if not group.wait(PLACE_SECONDS):
            raise StorageError(
                f"Ray found no place for {len(plans)} nodes within {PLACE_SECONDS:g} s: their machines are there, and "
                "other work has what the nodes need (`ray status` shows it)."
            )
        # Machines of Ray need no callboard in their Python: they get the class itself.
        ray.cloudpickle.register_pickle_by_value(keeper)
        kept = ray.remote(keeper.NodeKeeper)
        for number, plan in enumerate(plans):
            made.append(_make_actor(kept, strategies, group, number, plan))
    except ValueError as error:  # another command was quicker
        _take_back(ray, util, group, made)
        raise ConflictError(
            f"Ray made no actor for each node: {error}. Nothing was left behind."
        ) from error
    except BaseException:
        _take_back(ray, util, group, made)
        raise
    return [plan.name for plan in plans]


def _take_back(ray: Any, util: Any, group: Any, made: list[Any]) -> None:
    """End the actors that were made, and give their place back."""
    for actor in made:
        ray.kill(actor, no_restart=True)
    util.remove_placement_group(group)


def _make_actor(kept: Any, strategies: Any, group: Any, number: int, plan: ActorPlan) -> Any:
    needs = dict(plan.resources)
    strategy = strategies.PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=number
    )
    return kept.options(
        name=plan.name,
        namespace=NAMESPACE,
        lifetime="detached",
        max_restarts=-1,
        max_concurrency=CALLS_AT_ONCE,
        num_cpus=needs.pop("CPU"),
        memory=needs.pop("memory", None),
        resources=needs,
        scheduling_strategy=strategy,
    ).remote(plan.keeper)


def _begin_again(ray: Any, file: ClusterFile, names: Sequence[str]) -> list[str]:
    ended = [row["node"] for row in node_states(ray, file) if row["state"] == "ended"]
    if not ended:
        raise ConflictError(
            f"Ray keeps nodes of {file.name} already: {', '.join(names)}. `callboard cluster ray status` shows them; for "
            "another file end them first: `callboard cluster ray down`."
        )
    ray.get([ray.get_actor(name).begin.remote() for name in ended], timeout=STATE_SECONDS)
    return ended


def wait_serving(
    ray: Any, file: ClusterFile, names: Sequence[str], tell: Callable[[str], None]
) -> bool:
    """Wait until these nodes serve; return whether they do. `tell` hears why one ended."""
    deadline = time.monotonic() + ray_place(file).start_seconds
    told: dict[str, str] = {}
    while True:
        rows = [row for row in node_states(ray, file) if row["node"] in names]
        for row in rows:
            if row["last_end"] and row["last_end"] != told.get(row["node"]):
                told[row["node"]] = row["last_end"]
                tell(f"{row['node']} {row['last_end']}")
        if len(rows) == len(names) and all(row["state"] == "serving" for row in rows):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)


def node_states(ray: Any, file: ClusterFile) -> list[dict[str, Any]]:
    """Return what each keeper says of its node; one that does not answer is `unreachable`."""
    actors = {name: ray.get_actor(name) for name in _actors(ray, file)}
    asked = {name: actor.state.remote() for name, actor in actors.items()}
    deadline = time.monotonic() + STATE_SECONDS
    rows: list[dict[str, Any]] = []
    for name, answer in asked.items():
        try:
            rows.append(ray.get(answer, timeout=max(deadline - time.monotonic(), 0.01)))
        except (ray.exceptions.RayError, TimeoutError) as error:
            rows.append(_unreachable(name, error))
    return rows


def _unreachable(name: str, error: BaseException) -> dict[str, Any]:
    why = " ".join(str(error).split())[:200] or "it does not answer"
    return {
        "node": name, "state": "unreachable", "machine": "", "keeper": None, "starts": 0, "last_end": why, "pid": None, "url": "",
    }  # fmt: skip


def end_nodes(ray: Any, file: ClusterFile) -> dict[str, str]:
    """Drain all nodes, end their actors, and give back what was set apart; return how each ended.

    Raises:
        NotFoundError: Ray keeps none.
    """
    util = importlib.import_module("ray.util")
    names = _actors(ray, file)
    if not names:
        _give_up_place(util, file)
        raise NotFoundError(
            f"Ray keeps no node of {file.name}: there is nothing to end. `callboard cluster status` lists nodes, "
            "whoever keeps them."
        )
    actors = {name: ray.get_actor(name) for name in names}
    asked = {name: actor.drain.remote() for name, actor in actors.items()}
    most = max(plan.keeper.stop_seconds for plan in actor_plans(file))
    deadline = time.monotonic() + most + keeper.KILLED_SECONDS + STATE_SECONDS
    ended: dict[str, str] = {}
    for name, answer in asked.items():
        try:
            ended[name] = ray.get(answer, timeout=max(deadline - time.monotonic(), 0.01))
        except (ray.exceptions.RayError, TimeoutError):
            ended[name] = "its keeper does not answer; the node ends with it"
    for actor in actors.values():
        ray.kill(actor, no_restart=True)
    _give_up_place(util, file)
    return ended


def _give_up_place(util: Any, file: ClusterFile) -> None:
    """Give back what is set apart for the nodes, as after an `up` that was cut off."""
    with suppress(ValueError):  # there is nothing
        util.remove_placement_group(util.get_placement_group(file.name))


def _actors(ray: Any, file: ClusterFile) -> list[str]:
    found = ray.util.list_named_actors()  # of this namespace
    return sorted(
        (name for name in found if is_actor_of(file, name)),
        key=lambda name: int(name.rpartition("-")[2]),
    )


def _machines(ray: Any) -> list[Machine]:
    return [
        Machine(node["NodeManagerAddress"], node["Resources"])
        for node in ray.nodes()
        if node["Alive"]
    ]
