"""What `callboard cluster manifest` writes: units that systemd reads, and a manifest that Kubernetes' own program does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]

from callboard.cli.cluster.file import ClusterFile, load_cluster_file
from callboard.cli.cluster.kubernetes import kubernetes_documents, kubernetes_files
from callboard.cli.cluster.systemd import systemd_files
from callboard.cli.cluster.yaml import yaml_text
from callboard.cli.daemon.service_unit import ServicePlan, systemd_unit
from callboard.gateway.lifecycle import END_SECONDS
from callboard.runtime.errors import ValidationError
from support.cli.command import Command
from support.cli.command import command as command
from support.cluster.kubernetes_kinds import KINDS, check_kind

EXAMPLE = Path(__file__).parents[2] / "docs" / "cluster.toml"
GOLDEN = Path(__file__).parents[1] / "support" / "cluster" / "manifests"
replace = msgspec.structs.replace


@pytest.fixture
def file() -> ClusterFile:
    return load_cluster_file(EXAMPLE)


@pytest.mark.parametrize("kind", ["systemd", "kubernetes"])
async def test_the_files_of_the_example_are_those_that_are_kept(
    command: Command, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "out"
    ran = await command("cluster", "manifest", str(EXAMPLE), "--for", kind, "--out", str(out))
    assert (ran.code, ran.err) == (0, "")
    made = {str(each.relative_to(out)): each.read_text() for each in out.rglob("*.*")}
    assert sorted(made) == sorted(
        line.removeprefix(f"Written: {out}/") for line in ran.out.splitlines()
    )
    if os.environ.get("CALLBOARD_WRITE_GOLDEN"):
        shutil.copytree(out, GOLDEN / kind, dirs_exist_ok=True)
    kept = {str(each.relative_to(GOLDEN / kind)): each.read_text() for each in (GOLDEN / kind).rglob("*.*")}  # fmt: skip
    assert made == kept, "CALLBOARD_WRITE_GOLDEN=1 keeps what is meant"


async def test_without_a_folder_they_are_printed(command: Command) -> None:
    ran = await command("cluster", "manifest", str(EXAMPLE), "--for", "kubernetes")
    assert ran.out == (GOLDEN / "kubernetes" / "callboard.yaml").read_text()
    ran = await command("cluster", "manifest", str(EXAMPLE), "--for", "systemd")
    assert "# ── a/callboard.service ──\n[Unit]\n" in ran.out
    wrong = await command("cluster", "manifest", str(EXAMPLE), "--for", "nomad")
    assert wrong.code == 2
    blocked = command.workspace / "file"
    blocked.write_text("")
    for_it = ("--for", "systemd", "--out", str(blocked))
    ran = await command("cluster", "manifest", str(EXAMPLE), *for_it)
    assert (ran.code, "can't be written" in ran.err) == (1, True)


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────


def test_systemd_reads_the_units_without_a_complaint(file: ClusterFile, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze on this machine")
    assert file.systemd is not None
    there = replace(file, systemd=replace(file.systemd, python="/usr/bin/env"))

    def complaints(text: str) -> str:
        (tmp_path / "callboard.service").write_text(text)
        words = [analyze, "verify", str(tmp_path / "callboard.service")]
        return subprocess.run(words, capture_output=True, text=True, check=False).stderr

    for name, text in systemd_files(there).items():
        if name.endswith(".service"):
            assert complaints(text) == ""
            assert "LoadCredentail" in complaints(text.replace("LoadCred", "LoadCredentail", 1))


INSTALL = """#!{python}
import os, sys
words = sys.argv[1:]
while named := {{"-o", "-g"}} & set(words):
    at = words.index(named.pop())
    del words[at : at + 2]
os.execv("{install}", ["install", *words])
"""
"""`install` for a user who can't give files away."""


def test_the_commands_of_the_document_leave_what_a_unit_needs(
    file: ClusterFile, tmp_path: Path
) -> None:
    """As they stand there, in folders of the test; users and services are not the machine's."""
    text = (EXAMPLE.parent / "scale.md").read_text(encoding="utf-8")
    block = text.partition("**systemd**")[2].partition("```sh\n")[2].partition("```")[0]
    there, programs = tmp_path / "machine", tmp_path / "programs"
    for folder in ("etc/systemd/system", "var/lib", "srv"):
        (there / folder).mkdir(parents=True)
    programs.mkdir()
    for name in ("useradd", "systemctl", "callboard", "runuser"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} $* >> {tmp_path}/ran\n")
    (programs / "install").write_text(
        INSTALL.format(python=sys.executable, install=shutil.which("install"))
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    for name, unit in systemd_files(file).items():
        (tmp_path / "units" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "units" / name).write_text(unit)
    for folder in ("etc", "var", "srv"):
        block = block.replace(f" /{folder}/", f" {there}/{folder}/")
    path = f"{programs}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-eu", "-c", block],
        cwd=tmp_path,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    unit = (there / "etc/systemd/system/callboard.service").read_text()
    needed = re.findall(r"^(?:ReadWritePaths|EnvironmentFile)=(.*)|--config (\S+)|LoadCredential=\S+?:(.*)", unit, re.MULTILINE)  # fmt: skip
    paths = [each for found in needed for line in found for each in line.split()]
    assert len(paths) == 5
    assert [each for each in paths if not (there / each[1:]).exists()] == []
    for name in ("database-password", "environment"):
        assert (there / "etc/callboard" / name).stat().st_mode & 0o77 == 0
    done = (tmp_path / "ran").read_text()
    assert "systemctl enable --now callboard" in done
    assert "token create owner --role admin" in done.splitlines()[-1]


def test_a_unit_is_hardened_as_that_of_one_daemon_is(file: ClusterFile) -> None:
    unit = systemd_files(file)["a/callboard.service"]
    one = systemd_unit(
        ServicePlan(command=("/x",), is_system=True, user="callboard", data=Path("/d"))
    )
    own = ("ExecStart=", "TimeoutStopSec=", "ReadWritePaths=")
    for line in one.splitlines():
        assert line in unit or line.startswith(own)
    assert "\nLoadCredential=callboard-database:/etc/callboard/database-password\n" in unit
    assert "\nEnvironmentFile=/etc/callboard/environment\n" in unit
    assert "\nReadWritePaths=/var/lib/callboard /srv/projects\n" in unit
    assert f"\nTimeoutStopSec={60 + int(END_SECONDS) + 10}\n" in unit


def test_a_path_that_systemd_would_not_read_is_refused(file: ClusterFile) -> None:
    spaced = replace(file, environment_file="/etc/call board/environment")
    with pytest.raises(ValidationError, match="without quotation marks"):
        systemd_files(spaced)


def test_without_machines_or_a_port_there_is_no_unit(file: ClusterFile) -> None:
    for bad in (replace(file, systemd=None), replace(file, port=0)):
        with pytest.raises(ValidationError, match=r"systemd\.nodes\.NAME|port of its own"):
            systemd_files(bad)
    assert systemd_files(file)


# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────


def documents(file: ClusterFile) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in kubernetes_documents(file)}


def pod_of(file: ClusterFile) -> dict[str, Any]:
    pod: dict[str, Any] = documents(file)["StatefulSet", "callboard"]["spec"]["template"]["spec"]
    return pod


def test_what_is_written_is_what_yaml_reads(file: ClusterFile) -> None:
    text = kubernetes_files(file)["callboard.yaml"]
    assert list(yaml.safe_load_all(text)) == kubernetes_documents(file)


@pytest.mark.parametrize(
    "value",
    [
        *("", "yes", "No", "null", "~", "1", "1.5", "0x1", "-", "a: b", "a #b", " a", "a\nb", "a\n", "a\n\n", "\na\n", "é\n"),
        *("*a", "&a", "!a", "%a", "@a", "`a", "|", "a\tb\n", "a\r\n", "\u2028\n", "\x85\n", " a\nb\n", "2026-11-29", "12:30", "\U0001f600"),
        *(True, False, None, 0, 1.5, [], {}, ["a", ["b", {"c": []}]], [[1, 2], [{"a": 1, "b": [3]}]], {"a: b": {"yes": "no"}}),
    ],
)  # fmt: skip
def test_any_value_comes_back(value: Any) -> None:
    for whole in ({"key": value}, {"key": [value, {"inner": value, "then": 1}]}):
        assert list(yaml.safe_load_all(yaml_text([whole, whole]))) == [whole, whole]


def test_kubernetes_own_program_knows_every_field(file: ClusterFile, tmp_path: Path) -> None:
    """Where it knows a type, it drops what that type does not have; so what comes back says all."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl on this machine")
    assert file.kubernetes is not None

    def read_back(document: Mapping[str, Any]) -> Any:
        path = tmp_path / "one.json"
        path.write_text(json.dumps(document))
        words = [kubectl, "set", "env", "--local", "-f", str(path), "SEEN=yes", "-o", "json"]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    for is_sandbox in (False, True):
        kubernetes = replace(file.kubernetes, sandbox=is_sandbox)
        made = documents(replace(file, kubernetes=kubernetes))["StatefulSet", "callboard"]
        missing = lost(made, read_back(made))
        # A quantity has one spelling there.
        assert [each for each in missing if not each.endswith(".cpu")] == []
        made["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {"periodSeconds": 1}
        assert "spec.template.spec.containers.0.livenesProbe.periodSeconds" in lost(
            made, read_back(made)
        )


def test_objects_beside_the_pods_have_fields_of_their_kinds_alone(file: ClusterFile) -> None:
    others = {key: each for key, each in documents(file).items() if key[0] != "StatefulSet"}
    assert {kind for kind, _ in others} == KINDS.keys()
    for each in others.values():
        check_kind(each)


@pytest.mark.parametrize(
    ("kind", "place", "wrong"),
    [
        ("ConfigMap", (), {"datas": {}}),
        ("ConfigMap", ("data",), {"callboard.toml": 1}),
        ("ConfigMap", ("metadata",), {"name": "Callboard"}),
        ("ConfigMap", (), {"apiVersion": "v2"}),
        ("Service", ("spec",), {"clusterIp": "None"}),
        ("Service", ("spec",), {"publishNotReadyAddress": True}),
        ("Service", ("spec", "ports", 0), {"targetPort": "a name of more than fifteen"}),
        ("Service", ("spec", "ports", 0), {"port": 0}),
        ("Service", ("spec", "selector"), {"app": "not a value"}),
        ("PodDisruptionBudget", ("spec",), {"maxUnavailble": 1}),
        ("PodDisruptionBudget", ("spec",), {"minAvailable": 1}),
        ("PodDisruptionBudget", ("spec", "selector"), {"app": "callboard"}),
    ],
)
def test_a_field_that_a_kind_does_not_have_is_found(
    file: ClusterFile, kind: str, place: tuple[str | int, ...], wrong: dict[str, Any]
) -> None:
    made = documents(file)[kind, "callboard"]
    there: Any = made
    for key in place:
        there = there[key]
    there.update(wrong)
    with pytest.raises(msgspec.ValidationError):
        check_kind(made)


def test_objects_name_each_other_as_they_are_called(file: ClusterFile) -> None:
    every = documents(file)
    stateful, pod = every["StatefulSet", "callboard"]["spec"], pod_of(file)
    labels, (container,) = stateful["template"]["metadata"]["labels"], pod["containers"]
    assert ("Service", stateful["serviceName"]) in every
    for name in ("callboard", "callboard-nodes"):
        spec = every["Service", name]["spec"]
        assert spec["selector"].items() <= labels.items()
        assert [each["targetPort"] for each in spec["ports"]] == [container["ports"][0]["name"]]
    budget = every["PodDisruptionBudget", "callboard"]["spec"]
    assert budget["selector"] == stateful["selector"] == {"matchLabels": labels}
    [configured] = [each["configMap"] for each in pod["volumes"] if "configMap" in each]
    [mounted] = [each["subPath"] for each in container["volumeMounts"] if "subPath" in each]
    assert mounted in every["ConfigMap", configured["name"]]["data"]
    claims = [each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]]
    volumes = [*claims, *(each["name"] for each in pod["volumes"])]
    assert sorted(each["name"] for each in container["volumeMounts"]) == sorted(volumes)


def lost(made: Any, found: Any, place: str = "") -> list[str]:
    """Return the places at which something of the one is not in the other."""
    if isinstance(made, dict):
        return [
            each
            for key, value in made.items()
            for each in lost(
                value,
                found.get(key) if isinstance(found, dict) else None,
                f"{place}.{key}".lstrip("."),
            )
        ]
    if isinstance(made, list):
        items = found if isinstance(found, list) else []
        padded = [*items, *[None] * len(made)]
        return [
            each
            for number, value in enumerate(made)
            for each in lost(value, padded[number], f"{place}.{number}")
        ]
    return [] if made == found else [place]


def test_pods_have_no_more_rights_than_a_node_needs(file: ClusterFile) -> None:
    pod = pod_of(file)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert file.kubernetes is not None
    loose = pod_of(replace(file, kubernetes=replace(file.kubernetes, sandbox=True)))
    assert (pod.get("hostUsers"), loose["hostUsers"]) == (None, False)
    assert loose["containers"][0]["securityContext"]["procMount"] == "Unmasked"
    assert loose["securityContext"]["seccompProfile"] == {"type": "Unconfined"}
    assert loose["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_no_manifest_holds_a_secret(file: ClusterFile) -> None:
    assert not [kind for kind, _ in documents(file) if kind == "Secret"]
    (container,) = pod_of(file)["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "callboard"}}]


def test_a_pod_is_a_node_that_others_reach_and_that_has_time_to_drain(file: ClusterFile) -> None:
    pod = pod_of(file)
    (container,) = pod["containers"]
    own = container["command"][-4:]
    assert own[:2] == ["--node", "$(POD_NAME)"]
    assert own[3] == "http://$(POD_NAME).callboard-nodes.agents.svc:8790"
    nodes = documents(file)["Service", "callboard-nodes"]["spec"]
    assert (nodes["clusterIP"], nodes["publishNotReadyAddresses"]) == ("None", True)
    assert pod["terminationGracePeriodSeconds"] >= 5 + file.drain_seconds + END_SECONDS
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["httpHeaders"][0]["value"] == "localhost:8790"


def test_a_change_of_the_configuration_starts_pods_again(file: ClusterFile) -> None:
    def digest(found: ClusterFile) -> str:
        template = documents(found)["StatefulSet", "callboard"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["callboard/configuration"])

    assert digest(file) == digest(file)
    assert digest(replace(file, settings={"policy": "strict"})) != digest(file)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kubernetes": None}, r"which image to run"),
        ({"host": "127.0.0.1"}, "nobody reaches a pod"),
        ({"port": 0}, "Services need to know it"),
        ({"roots": {"projects": "/p", "more": "/m"}}, "The root more has no volume"),
    ],
)
def test_what_pods_can_not_have_is_refused(
    file: ClusterFile, change: dict[str, Any], complaint: str
) -> None:
    assert kubernetes_files(file)
    with pytest.raises(ValidationError, match=complaint):
        kubernetes_files(replace(file, **change))
