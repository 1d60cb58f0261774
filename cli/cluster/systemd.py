"""The files with which systemd keeps each node running: a unit and a callboard.toml for each machine."""

from __future__ import annotations

from pathlib import Path

from ...runtime.errors import ValidationError
from ...runtime.store.postgres.address import CREDENTIAL_NAME
from ..daemon.service_unit import ServicePlan, systemd_unit
from .file import ClusterFile
from .node_plan import plan_node, stop_seconds

CONFIGURATION = "/etc/callboard/callboard.toml"
"""Where the file of a machine is to lie; `systemd_files` says the rest of its name."""


def systemd_files(file: ClusterFile) -> dict[str, str]:
    """Return the text of each file, by its path: `NODE/NAME.service`, `NODE/callboard.toml`.

    Raises:
        ValidationError: The file says nothing of machines, or what no unit can hold.
    """
    place = file.systemd
    if place is None or not place.nodes:
        raise ValidationError(
            "For systemd the file must say which machines there are: a table [systemd.nodes.NAME] with its url for "
            "each, and the python of [systemd].",
            field="systemd.nodes",
        )
    if file.port == 0:
        raise ValidationError(
            "A node whose url others know needs a port of its own: port = 0 takes any.",
            field="port",
        )
    files: dict[str, str] = {}
    for name, node in sorted(place.nodes.items()):
        plan = plan_node(
            file,
            configuration=CONFIGURATION,
            data=place.data,
            node=name,
            url=node.url,
            capacity=node.capacity,
            roots=node.roots,
        )
        credentials = [(CREDENTIAL_NAME, file.store.password_file)]
        unit = systemd_unit(
            ServicePlan(
                command=(place.python, *plan.arguments),
                is_system=True,
                user=place.user,
                data=Path(place.data),
                roots=tuple(
                    Path(root.path)
                    for root_name, root in file.named_roots.items()
                    if node.roots is None or root_name in node.roots
                ),
                environment_file=file.environment_file,
                credentials=tuple(pair for pair in credentials if pair[1]),
                cpus=file.limits.cpus,
                memory_bytes=file.limits.memory_bytes,
                stop_seconds=stop_seconds(file),
            )
        )
        files[f"{name}/{file.name}.service"] = unit
        files[f"{name}/callboard.toml"] = plan.configuration
    return files
