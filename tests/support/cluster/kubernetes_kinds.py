"""The kinds of Kubernetes beside a StatefulSet that a manifest has, as its API reference (1.33) describes them.

Kubernetes' own program reads no file of these kinds without a server. So their fields are written down here: whole for
each kind, and closed, so that one that is misspelt or stands in the wrong place is refused, as a server with
`--validate=strict` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
"""A label of DNS (RFC 1123)."""
LabelValue = Annotated[str, Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
LabelKey = Annotated[str, Meta(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")]  # fmt: skip
Labels = dict[LabelKey, LabelValue]
PortName = Annotated[str, Meta(pattern=r"^(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$")]
"""A name of a service (RFC 6335)."""
PortNumber = Annotated[int, Meta(ge=1, le=65535)]
Share = Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern=r"^\d+%$")]


class _Closed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    pass


class ObjectMeta(_Closed):
    name: Name
    namespace: Name
    labels: Labels = {}
    annotations: dict[LabelKey, str] = {}
    finalizers: list[str] = []
    generate_name: str = ""
    owner_references: list[Any] = []


class ConfigMap(_Closed):
    api_version: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: ObjectMeta
    data: dict[Annotated[str, Meta(pattern=r"^[-._a-zA-Z0-9]{1,253}$")], str] = {}
    binary_data: dict[str, bytes] = {}
    immutable: bool = False


class ServicePort(_Closed):
    port: PortNumber
    name: PortName = ""
    target_port: PortNumber | PortName = 1
    node_port: PortNumber = 1
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    app_protocol: str = ""


class ServiceSpec(_Closed):
    ports: list[ServicePort] = []
    selector: Labels = {}
    cluster_ip: Literal["None", ""] = msgspec.field(default="", name="clusterIP")
    cluster_ips: list[str] = msgspec.field(default_factory=list, name="clusterIPs")
    type: Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] = "ClusterIP"
    publish_not_ready_addresses: bool = False
    session_affinity: Literal["None", "ClientIP"] = "None"
    session_affinity_config: Any = None
    internal_traffic_policy: Literal["Cluster", "Local"] = "Cluster"
    external_traffic_policy: Literal["Cluster", "Local"] = "Cluster"
    external_ips: list[str] = msgspec.field(default_factory=list, name="externalIPs")
    external_name: str = ""
    ip_families: list[str] = []
    ip_family_policy: str = ""
    allocate_load_balancer_node_ports: bool = True
    health_check_node_port: int = 0
    load_balancer_class: str = ""
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: list[str] = []
    traffic_distribution: str = ""


class Service(_Closed):
    api_version: Literal["v1"]
    kind: Literal["Service"]
    metadata: ObjectMeta
    spec: ServiceSpec


class LabelSelector(_Closed):
    match_labels: Labels = {}
    match_expressions: list[Any] = []


class PodDisruptionBudgetSpec(_Closed):
    selector: LabelSelector
    min_available: Share | None = None
    max_unavailable: Share | None = None
    unhealthy_pod_eviction_policy: Literal["IfHealthyBudget", "AlwaysAllow"] = "IfHealthyBudget"

    def __post_init__(self) -> None:
        if (self.min_available is None) is (self.max_unavailable is None):
            raise ValueError("one of minAvailable and maxUnavailable")


class PodDisruptionBudget(_Closed):
    api_version: Literal["policy/v1"]
    kind: Literal["PodDisruptionBudget"]
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec


KINDS: dict[str, type[msgspec.Struct]] = {
    "ConfigMap": ConfigMap,
    "Service": Service,
    "PodDisruptionBudget": PodDisruptionBudget,
}


def check_kind(document: Mapping[str, Any]) -> None:
    """Raise `msgspec.ValidationError` if an object is not what its kind may be."""
    msgspec.convert(document, KINDS[document["kind"]])
