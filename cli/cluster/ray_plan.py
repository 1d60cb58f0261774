"""Which actors Ray shall keep, and what each machine must have for one: decided without Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap

import msgspec

from ...runtime.errors import ValidationError
from .file import ClusterFile, RayPlace
from .keeper import KeeperPlan
from .node_plan import plan_node, stop_seconds

ROOT_SHARE = 0.001
"""Of a resource `root:NAME`, which says that a machine has it and is not used up."""


class Machine(msgspec.Struct, frozen=True):
    """A machine of a Ray cluster: its address, and all that it has."""

    address: str
    resources: Mapping[str, float]


class ActorPlan(msgspec.Struct, frozen=True):
    """An actor: its keeper's plan, and what its machine must have."""

    keeper: KeeperPlan
    resources: Mapping[str, float]

    @property
    def name(self) -> str:
        """The name of the actor and of its node."""
        return self.keeper.node


def ray_place(file: ClusterFile) -> RayPlace:
    """Return `[ray]`; raise `ValidationError` if the file has none."""
    if file.ray is None:
        raise ValidationError(
            "For Ray the file must say with which Python nodes are started: [ray] python.",
            field="ray",
        )
    return file.ray


def actor_plans(file: ClusterFile) -> list[ActorPlan]:
    """Return an actor for each node, one a machine."""
    place = ray_place(file)
    needs = _needs(file, place)
    plans: list[ActorPlan] = []
    for number in range(place.replicas):
        home = f"{place.data}/{actor_name(file, number)}"
        plan = plan_node(file, configuration=f"{home}/config/callboard.toml", data=f"{home}/data")
        keeper = KeeperPlan(
            node=actor_name(file, number),
            python=place.python,
            arguments=plan.arguments,
            configuration=plan.configuration,
            home=home,
            host=file.host,
            port=file.port,
            environment_file=file.environment_file,
            password_file=file.store.password_file,
            stop_seconds=stop_seconds(file),
        )
        plans.append(ActorPlan(keeper, needs))
    return plans


def actor_name(file: ClusterFile, number: int) -> str:
    """Return the name of an actor, and of its node."""
    return f"{file.name}-{number}"


def is_actor_of(file: ClusterFile, name: str) -> bool:
    """Whether an actor keeps a node of this cluster, of which there may have been more before."""
    start, _, number = name.rpartition("-")
    return start == file.name and number.isascii() and number.isdigit()


def _needs(file: ClusterFile, place: RayPlace) -> dict[str, float]:
    needs: dict[str, float] = {"CPU": file.limits.cpus if file.limits.cpus is not None else 1.0}
    if file.limits.memory_bytes is not None:
        needs["memory"] = float(file.limits.memory_bytes)
    needs |= {f"root:{name}": ROOT_SHARE for name in file.roots}
    return needs | place.resources


def too_few(plans: Sequence[ActorPlan], machines: Sequence[Machine]) -> str:
    """Return what the cluster lacks for one node a machine, or nothing when it lacks nothing."""
    needs = plans[0].resources
    lacking = {machine.address: _lacks(needs, machine) for machine in machines}
    fit = sum(not lacks for lacks in lacking.values())
    if fit >= len(plans):
        return ""
    have = "no machine" if fit == 0 else "1 machine" if fit == 1 else f"{fit} machines"
    wanted = (
        "1 node needs a machine" if len(plans) == 1 else f"{len(plans)} nodes need a machine each"
    )
    words = [f"{wanted} with {_in_words(needs)}; the Ray cluster has {have} like that."]
    words += [
        f"{address} lacks {', '.join(lacks)}."
        for address, lacks in sorted(lacking.items())
        if lacks
    ]
    if (missing := len(plans) - len(machines)) > 0:
        count = "1 machine" if missing == 1 else f"{missing} machines"
        words.append(f"{count} more must join: `ray start --address=HEAD` there.")
    return " ".join([*words, "Or ask for fewer with [ray] replicas."])


def _lacks(needs: Mapping[str, float], machine: Machine) -> list[str]:
    return [_amount(name, amount) for name, amount in needs.items() if machine.resources.get(name, 0.0) < amount]  # fmt: skip


def _in_words(needs: Mapping[str, float]) -> str:
    return ", ".join(starmap(_amount, needs.items()))


def _amount(name: str, amount: float) -> str:
    if name == "memory":
        return f"{amount / 2**30:.3g} GiB of memory"
    if name.startswith("root:"):
        return f"the resource {name}"
    return f"{amount:g} {name}"
