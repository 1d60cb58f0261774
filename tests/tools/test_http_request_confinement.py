"""No request gets inside: each case in a network where, let through, it would be answered.

The cases run in a network namespace of their own (`empty_network.py`), where all addresses lead to
one server. Each has its control there: the same request with its host allowed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("empty_network.py")
PUBLIC = "93.184.216.34"

LITERALS = [
    *("127.0.0.1", "0", "0.0.0.0", "127.1", "2130706433", "0x7f000001", "0x7f.1"),
    *("localhost.", "LOCALHOST", "10.1.2.3", "100.64.0.1", "169.254.169.254", "192.0.0.192"),
    *("198.18.0.1", "172.16.0.1", "192.168.1.1", "168.63.129.16"),
]
LITERALS_V6 = [
    *("[::]", "[::1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[fd00:ec2::254]", "[64:ff9b::7f00:1]"),
    *("[2002:7f00:1::]", "[2001:db8::1]"),
]
UNCONNECTABLE = ["224.0.0.1", "255.255.255.255", "[ff02::1]"]
"""No TCP connection leads there; the control is that one is tried."""

REDIRECTS = {
    "metadata": "http://169.254.169.254/",
    "loopback": "http://127.1/",
    "port": "http://other.test:8080/",
    "file": "file:///etc/passwd",
    "loop": "/go",
    "other": "http://other.test/",
}


@cache
def in_namespace(scene: str, *arguments: str, **environment: str) -> Any:
    """What a scene of `empty_network.py` found."""
    why_not = namespace_problem()
    if why_not and os.environ.get("CI"):
        pytest.fail(why_not)
    if why_not:
        pytest.skip(why_not)
    ran = subprocess.run(
        [*unshare(), sys.executable, str(SCRIPT), scene, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def unshare() -> list[str]:
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]


@cache
def namespace_problem() -> str:
    """Why there can be no network namespace here; empty when there can."""
    try:
        ran = subprocess.run([*unshare(), "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "these tests need unshare (util-linux)"
    return f"no network namespace: {ran.stderr.strip()}" if ran.returncode else ""


def literal(host: str) -> Any:
    urls = [f"http://{each}/" for each in (*LITERALS, *LITERALS_V6, *UNCONNECTABLE)]
    return in_namespace("literals", json.dumps(urls))[f"http://{host}/"]


@pytest.mark.parametrize("host", [*LITERALS, *LITERALS_V6, *UNCONNECTABLE])
def test_a_host_inside_is_refused_without_a_connection(host: str) -> None:
    denied = literal(host)["denied"]
    assert denied["outcome"] == "url_not_allowed"
    assert (denied["connects"], denied["requests"]) == ([], [])
    # No word of what is there.
    assert denied["message"].startswith("http://")
    assert "not allowed. Tools reach public hosts" in denied["message"]


@pytest.mark.parametrize("host", [*LITERALS, *LITERALS_V6])
def test_its_control_is_answered(host: str) -> None:
    control = literal(host)["control"]
    if host in LITERALS_V6 and not has_ipv6():
        assert len(control["connects"]) == 1
    else:
        assert (control["outcome"], control["body"]) == (200, "inside")


@pytest.mark.parametrize("host", UNCONNECTABLE)
def test_the_control_of_an_address_for_many_is_tried(host: str) -> None:
    control = literal(host)["control"]
    assert control["outcome"] == "network_error"
    assert len(control["connects"]) == 1


def test_an_octal_spelling_is_no_url_and_is_not_sent() -> None:
    # That the guard sees through it too is in test_address_guard.
    row = in_namespace("octal")["row"]
    assert (row["outcome"], row["connects"]) == ("validation_error", [])


def has_ipv6() -> bool:
    outcome: Any = literal("[::1]")["control"]["outcome"]
    return bool(outcome == 200)


def test_a_public_name_is_answered() -> None:
    public = in_namespace("names")["public"]
    assert (public["outcome"], public["connects"]) == (200, [PUBLIC])


@pytest.mark.parametrize("name", ["mixed", "inside"])
def test_a_name_with_any_address_inside_is_refused_without_a_connection(name: str) -> None:
    pair = in_namespace("names")[name]
    assert (pair["denied"]["outcome"], pair["denied"]["connects"]) == ("url_not_allowed", [])
    assert "10.0.0.5" not in pair["denied"]["message"]
    assert pair["control"]["outcome"] == 200


def test_a_name_that_changes_its_address_is_connected_only_where_it_was_checked() -> None:
    first, reused, again = in_namespace("names")["rebind"]
    assert (first["outcome"], first["connects"]) == (200, [PUBLIC])
    # The connection that was checked is used again; then the name has to be looked up anew.
    assert (reused["outcome"], reused["connects"]) == (200, [])
    assert (again["outcome"], again["connects"]) == ("url_not_allowed", [])


@pytest.mark.parametrize("name", REDIRECTS)
def test_a_redirect_gets_no_further_than_a_request(name: str) -> None:
    pair = in_namespace("redirects", json.dumps(REDIRECTS))[name]
    denied, control = pair["denied"], pair["control"]
    expected = {"loop": "network_error", "other": 200}.get(name, "url_not_allowed")
    assert denied["outcome"] == expected
    assert set(denied["connects"]) == {PUBLIC}
    assert len(denied["requests"]) == {"loop": 6, "other": 2}.get(name, 1)
    assert denied["requests"][0]["authorization"] == "Bearer k"
    match name:
        case "metadata" | "loopback":
            # Let through, it is answered there, and is not told what was meant for another.
            assert (control["outcome"], len(control["connects"])) == (200, 2)
            assert {"authorization", "cookie"}.isdisjoint(control["requests"][1])
        case "port":
            assert (control["outcome"], len(control["connects"])) == ("network_error", 2)
        case "other":
            assert {"authorization", "cookie"}.isdisjoint(denied["requests"][1])
        case "loop":
            # Of one origin, nothing is held back.
            assert all(request["authorization"] for request in denied["requests"])
        case _:
            assert control["outcome"] == expected


def test_the_environment_has_no_proxy_and_no_password_for_us(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine good.test login me password canary\n")
    proxy = "http://198.51.100.7:80"
    variables = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy")
    row = in_namespace(
        "environment",
        **dict.fromkeys(variables, proxy),
        HOME=str(tmp_path),
        NETRC=str(tmp_path / ".netrc"),
    )["row"]
    assert (row["outcome"], row["connects"]) == (200, [PUBLIC])
    [request] = row["requests"]
    assert "authorization" not in request
    assert request["host"] == "good.test"


def test_a_compressed_gigabyte_takes_little_memory() -> None:
    found = in_namespace("bodies")
    assert found["row"]["outcome"] == 200
    assert "(Truncated: these are the first 102400 bytes of more than 8" in found["row"]["body"]
    assert found["rise_kib"] < 32 * 1024
    assert found["control_kib"] > 32 * 1024
