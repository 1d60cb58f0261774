"""The objects with which Kubernetes runs nodes: a StatefulSet and what belongs to it.

A StatefulSet, because a node has a name that stays, an address of its own, and a data folder. Its pods have no writable folder but that one, `/tmp` and
the roots, run as an ordinary user, and hold no token of Kubernetes. SIGTERM is what drains a node, so nothing else does when a pod ends:
`preStop` only waits until Services send nobody to it any more.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ...runtime.errors import ValidationError
from ..daemon.serve import LOOPBACK
from .file import ClusterFile, KubernetesPlace
from .node_plan import plan_node, stop_seconds
from .yaml import yaml_text

LEAVING_SECONDS = 5
"""Until every machine of the cluster knows that a pod takes no new connections."""
CONFIGURATION = "/etc/callboard/callboard.toml"
HOME = "/var/lib/callboard"
"""Where a node's volume is. Its data folder lies below, since the volume itself can be written by its group."""

Document = dict[str, Any]


def kubernetes_files(file: ClusterFile) -> dict[str, str]:
    """Return the text of the manifest, by its name.

    Raises:
        ValidationError: The file says nothing of Kubernetes, or what pods can't have.
    """
    return {f"{file.name}.yaml": yaml_text(kubernetes_documents(file))}


def kubernetes_documents(file: ClusterFile) -> list[Document]:
    """Return the objects; raises `ValidationError` as `kubernetes_files`."""
    place = file.kubernetes
    if place is None:
        raise ValidationError(
            "For Kubernetes the file must say which image to run: [kubernetes] image.",
            field="kubernetes",
        )
    _check(file, place)
    plan = plan_node(
        file, configuration=CONFIGURATION, data=f"{HOME}/data", hosts=_service_names(file, place)
    )
    port = [{"name": "callboard", "port": file.port, "targetPort": "callboard"}]
    select = {"app.kubernetes.io/name": "callboard", "app.kubernetes.io/instance": file.name}

    def made(kind: str, version: str, name: str, **rest: Any) -> Document:
        labels = {**select, "app.kubernetes.io/managed-by": "callboard-cluster"}
        about = {"name": name, "namespace": place.namespace, "labels": labels}
        return {"apiVersion": version, "kind": kind, "metadata": about, **rest}

    nodes = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": select}
    return [
        made("ConfigMap", "v1", file.name, data={"callboard.toml": plan.configuration}),
        made("Service", "v1", _nodes_name(file), spec={**nodes, "ports": port}),
        made("Service", "v1", file.name, spec={"selector": select, "ports": port}),
        made(
            "PodDisruptionBudget",
            "policy/v1",
            file.name,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": select}},
        ),
        made(
            "StatefulSet",
            "apps/v1",
            file.name,
            spec={
                "replicas": place.replicas,
                "serviceName": _nodes_name(file),
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": select},
                "template": {
                    "metadata": {
                        "labels": select,
                        "annotations": {
                            "callboard/configuration": _digest(plan.configuration)  # a change starts pods again
                        },
                    },
                    "spec": _pod(file, place, plan.arguments, select),
                },
                "volumeClaimTemplates": [_data_claim(place)],
            },
        ),
    ]  # fmt: skip


def _check(file: ClusterFile, place: KubernetesPlace) -> None:
    if file.host in LOOPBACK:
        raise ValidationError(
            f"host: at {file.host} nobody reaches a pod, not even its own probes: say 0.0.0.0.",
            field="host",
        )
    if file.port == 0:
        raise ValidationError(
            "port: Services need to know it: say another one than 0.", field="port"
        )
    if missing := file.roots.keys() - place.claims:
        name = min(missing)
        raise ValidationError(
            f"The root {name} has no volume in Kubernetes: say in [kubernetes.claims] which "
            f'PersistentVolumeClaim it is, as in {name} = "{name}".',
            field="kubernetes.claims",
        )


def _nodes_name(file: ClusterFile) -> str:
    return f"{file.name}-nodes"


def _service_names(file: ClusterFile, place: KubernetesPlace) -> tuple[str, ...]:
    """Return the names by which pods of the cluster call its Service."""
    name, whole = file.name, f"{file.name}.{place.namespace}"
    return (name, whole, f"{whole}.svc", f"{whole}.svc.cluster.local")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kubernetes_size(size: str) -> str:
    return size.removesuffix("B")


def _data_claim(place: KubernetesPlace) -> Document:
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": _kubernetes_size(place.storage)}},
    }
    if place.storage_class is not None:
        spec["storageClassName"] = place.storage_class
    return {"metadata": {"name": "data"}, "spec": spec}


def _pod(
    file: ClusterFile, place: KubernetesPlace, arguments: tuple[str, ...], select: Document
) -> Document:
    roots = file.named_roots
    profile = {"type": "Unconfined" if place.sandbox else "RuntimeDefault"}
    return {
        # A Service called callboard would make variables like CALLBOARD_PORT, which are callboard's own.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": LEAVING_SECONDS + stop_seconds(file),
        **({"hostUsers": False} if place.sandbox else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": place.user,
            "runAsGroup": place.user,
            "fsGroup": place.user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": profile,
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": select},
            }
        ],
        **({"nodeSelector": dict(place.node_selector)} if place.node_selector else {}),
        "containers": [_container(file, place, arguments)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": file.name}},
            {"name": "tmp", "emptyDir": {}},
            *(
                {
                    "name": f"root-{number}",
                    "persistentVolumeClaim": {"claimName": place.claims[name]},
                }
                for number, name in enumerate(roots)
            ),
        ],
    }


def _container(file: ClusterFile, place: KubernetesPlace, arguments: tuple[str, ...]) -> Document:
    # $(POD_NAME) is put in by Kubernetes; the name of the pod's machine in DNS follows from it.
    url = f"http://$(POD_NAME).{_nodes_name(file)}.{place.namespace}.svc:{file.port}"
    own = ["--node", "$(POD_NAME)", "--node-url", url]
    named = {"fieldRef": {"fieldPath": "metadata.name"}}
    return {
        "name": "callboard",
        "image": place.image,
        "command": [place.python, *arguments, *own],
        "env": [
            {"name": "POD_NAME", "valueFrom": named},
            {"name": "HOME", "value": HOME},
        ],
        "envFrom": [{"secretRef": {"name": place.secret}}],
        "ports": [{"name": "callboard", "containerPort": file.port}],
        "startupProbe": _probe(file, "/healthz", 2, 60),
        "livenessProbe": _probe(file, "/healthz", 10, 6),
        "readinessProbe": _probe(file, "/readyz", 3, 1),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(LEAVING_SECONDS)]}}},
        **_resources(file),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            # The sandbox mounts a /proc of its own, which the kernel refuses where parts of this one are covered.
            **(
                {"procMount": "Unmasked", "appArmorProfile": {"type": "Unconfined"}}
                if place.sandbox
                else {}
            ),
        },
        "volumeMounts": [
            {"name": "data", "mountPath": HOME},
            {"name": "tmp", "mountPath": "/tmp"},
            {
                "name": "configuration",
                "mountPath": CONFIGURATION,
                "subPath": "callboard.toml",
                "readOnly": True,
            },
            *(
                {"name": f"root-{number}", "mountPath": root.path}
                for number, root in enumerate(file.named_roots.values())
            ),
        ],
    }


def _probe(file: ClusterFile, path: str, seconds: int, failures: int) -> Document:
    # The door answers nobody who calls it by the pod's address, which is in no list of names.
    host = [{"name": "Host", "value": f"localhost:{file.port}"}]
    return {
        "httpGet": {"path": path, "port": "callboard", "httpHeaders": host},
        "periodSeconds": seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _resources(file: ClusterFile) -> Document:
    most: Document = {}
    if file.limits.cpus is not None:
        most["cpu"] = f"{round(file.limits.cpus * 1000)}m"
    if file.limits.memory is not None:
        most["memory"] = _kubernetes_size(file.limits.memory)
    return {"resources": {"requests": most, "limits": most}} if most else {}
