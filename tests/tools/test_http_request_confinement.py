"""No request gets inside, by http_request or web_fetch: each case where it would be answered.

The scenes (`network_scenes.py`) play in a namespace of their own, where all addresses lead to one
server. Each has its control there: the same request with its host allowed, or a client that asks
the environment.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.web.empty_network import INSIDE, PUBLIC
from support.web.namespaces import Play, all_in_namespace, in_namespace
from support.web.web_server import CERTIFICATE

LITERALS = [
    *("127.0.0.1", "0", "0.0.0.0", "127.1", "2130706433", "0x7f000001", "0x7f.1"),
    *("localhost.", "LOCALHOST", "10.1.2.3", "100.64.0.1", "169.254.169.254", "192.0.0.192"),
    *("198.18.0.1", "172.16.0.1", "192.168.1.1", "168.63.129.16", "127。0。0。1"),
]
LITERALS_V6 = [
    *("[::]", "[::1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[fd00:ec2::254]", "[64:ff9b::7f00:1]"),
    *("[2002:7f00:1::]", "[2001:db8::1]"),
]
UNCONNECTABLE = ["224.0.0.1", "255.255.255.255", "[ff02::1]"]
"""No TCP connection leads there; the control is that one is tried."""

NO_URLS = {
    **dict.fromkeys(
        [
            "http://0177.0.0.1/",
            "http://%31%32%37.0.0.1/",
            "http://①②⑦.0.0.1/",
            "http:///127.0.0.1/",
            "//127.0.0.1/",
            "http://good.test@127.0.0.1/",
            "http://good.test\\@127.0.0.1/",
            "http://127.0.0.1:80\\@good.test/",
            "http://good.test%2e.127.0.0.1/",
            "http://good.test\0.127.0.0.1/",
            "http://good.test%00.127.0.0.1/",
            "http://127.0.0.1%2f@good.test/",
            "http://good.test;@127.0.0.1/",
            "http://127.0.0.1../",
            "http://good\u00ad.test/",
            "http://a\u2100b.test/",
            "http://*.test/",
            "http://[::ffff:127.0.0.1%lo]/",
            "http://[fe80::1%251]/",
            "http://[::1].good.test/",
            "http://good.test:0/",
            "http://good.test:80:22/",
            "http://good.test/\r\nHost: 127.0.0.1",
        ],
        "validation_error",
    ),
    **dict.fromkeys(
        [
            "file:///etc/passwd",
            "ftp://good.test/",
            "gopher://good.test:80/",
            "unix:///run/docker.sock",
            "http+unix://%2Frun%2Fdocker.sock/",
        ],
        "url_not_allowed",
    ),
}

REDIRECTS = {
    "metadata": ["http://169.254.169.254/", "169.254.169.254:80"],
    "loopback": ["http://127.1/", "127.1:80"],
    "relative": ["//127.0.0.1/", "127.0.0.1:80"],
    "inside": ["http://inside.test/", ".test:80"],
    "port": ["http://other.test:8080/", "other.test:8080"],
    "file": ["file:///etc/passwd"],
    "password": ["http://me:secret@other.test/"],
    "no port": ["http://other.test:0/"],
    "zone": ["http://[fe80::1%25lo]/"],
    "loop": ["/go"],
    "other": ["http://other.test/"],
}
"""Where to, and what has to be allowed for it."""

UNUSABLE = ("loop", "password", "no port", "zone")
"""What is no answer of an honest server, rather than a place that is refused."""

EXACT = {
    "example.com": True,
    "EXAMPLE.com.": True,
    "example。com": True,
    "example.com.evil.test": False,
    "evilexample.com": False,
    "www.example.com": False,
    "com": False,
    "\u0435xample.com": False,  # a Cyrillic e: xn--xample-2of.com
    "xn--xample-2of.com": False,
    "example.com:8080": False,
}
BELOW = {
    "www.example.com": True,
    "a.b.EXAMPLE.com.": True,
    "bücher.example.com": True,
    "example.com": False,
    "evilexample.com": False,
    "www.example.com.evil.test": False,
    "www.\u0435xample.com": False,
    "com": False,
    "10.0.0.5": False,
    "www.example.com:8080": False,
}
LISTS = {
    entry: [f"http://{host}/" for host in hosts]
    for entry, hosts in {"Example.COM.:80": EXACT, ".Example.COM.:80": BELOW}.items()
}


TOOLS = ("http_request", "web_fetch")
BOTH = pytest.mark.parametrize("tool", TOOLS)


SENT = "HTTP://GOOD.test.#@127.0.0.1"
"""The control of those that are no URLs."""

TOLD = {
    "literals": [f"http://{each}/" for each in (*LITERALS, *LITERALS_V6, *UNCONNECTABLE)],
    "no_urls": [*NO_URLS, SENT],
    "names": "",
    "redirects": REDIRECTS,
}
"""What scenes are told."""

PLAYS: dict[tuple[str, str], Play] = {
    (tool, name): (scene, tool, json.dumps(told))
    for tool in TOOLS
    for name, scene, told in (
        *((scene, scene, told) for scene, told in TOLD.items()),
        *((entry, "listed", [entry, *urls]) for entry, urls in LISTS.items()),
    )
}


def played(tool: str, name: str) -> Any:
    """What a scene found when this tool makes its requests; one process plays them all."""
    return all_in_namespace(*PLAYS.values())[PLAYS[tool, name]]


def literal(host: str, tool: str = "http_request") -> Any:
    return played(tool, "literals")[f"http://{host}/"]


@BOTH
@pytest.mark.parametrize("host", [*LITERALS, *LITERALS_V6, *UNCONNECTABLE])
def test_case_15_16_a_host_inside_is_refused_without_a_connection(host: str, tool: str) -> None:
    denied = literal(host, tool)["denied"]
    assert denied["outcome"] == "url_not_allowed"
    assert (denied["connects"], denied["requests"]) == ([], [])
    # No word of what is there.
    assert denied["message"].startswith("http://")
    assert "not allowed. Tools reach public hosts" in denied["message"]


@BOTH
@pytest.mark.parametrize("host", [*LITERALS, *LITERALS_V6])
def test_case_15_16_its_control_is_answered(host: str, tool: str) -> None:
    control = literal(host, tool)["control"]
    if host in LITERALS_V6 and not has_ipv6():
        assert len(control["connects"]) == 1
    else:
        assert (control["outcome"], control["body"]) == (200, "inside")


@BOTH
@pytest.mark.parametrize("host", UNCONNECTABLE)
def test_case_16_the_control_of_an_address_for_many_is_tried(host: str, tool: str) -> None:
    control = literal(host, tool)["control"]
    assert control["outcome"] == "network_error"
    assert len(control["connects"]) == 1


@BOTH
@pytest.mark.parametrize("url", NO_URLS)
def test_case_15_what_is_no_url_of_the_web_is_not_sent(url: str, tool: str) -> None:
    # That the guard sees through an octal number too is in test_address_guard.
    row = played(tool, "no_urls")[url]
    assert (row["outcome"], row["connects"]) == (NO_URLS[url], [])


@BOTH
def test_the_control_of_those_is_sent(tool: str) -> None:
    row = played(tool, "no_urls")[SENT]
    assert (row["outcome"], row["connects"]) == (200, [PUBLIC])


def has_ipv6() -> bool:
    outcome: Any = literal("[::1]")["control"]["outcome"]
    return bool(outcome == 200)


@BOTH
def test_a_public_name_is_answered(tool: str) -> None:
    public = played(tool, "names")["public"]
    assert (public["outcome"], public["connects"]) == (200, [PUBLIC])


@BOTH
@pytest.mark.parametrize("name", ["mixed", "first", "inside"])
def test_case_17_a_name_with_any_address_inside_is_refused_without_a_connection(
    name: str, tool: str
) -> None:
    pair = played(tool, "names")[name]
    assert (pair["denied"]["outcome"], pair["denied"]["connects"]) == ("url_not_allowed", [])
    assert INSIDE not in pair["denied"]["message"]
    assert pair["control"]["outcome"] == 200


@BOTH
def test_case_18_a_name_that_changes_its_address_is_connected_only_where_it_was_checked(
    tool: str,
) -> None:
    first, reused, again = played(tool, "names")["rebind"]
    assert (first["outcome"], first["connects"]) == (200, [PUBLIC])
    # The connection that was checked is used again; then the name has to be looked up anew.
    assert (reused["outcome"], reused["connects"]) == (200, [])
    assert (again["outcome"], again["connects"]) == ("url_not_allowed", [])


@BOTH
@pytest.mark.parametrize(
    ("entry", "host", "passes"),
    [
        *(("Example.COM.:80", *row) for row in EXACT.items()),
        *((".Example.COM.:80", *row) for row in BELOW.items()),
    ],
)
def test_case_22_an_entry_of_the_list_lets_through_what_it_names(
    entry: str, host: str, passes: bool, tool: str
) -> None:
    pair = played(tool, entry)[f"http://{host}/"]
    denied, control = pair["denied"], pair["control"]
    if passes:
        assert (denied["outcome"], denied["connects"]) == (200, [INSIDE])
    else:
        assert (denied["outcome"], denied["connects"]) == ("url_not_allowed", [])
    # With its own entry it is connected: nobody answers on the other port.
    expected = "network_error" if host.endswith(":8080") else 200
    assert (control["outcome"], control["connects"]) == (expected, [INSIDE])


@BOTH
@pytest.mark.parametrize("name", REDIRECTS)
def test_case_19_a_redirect_gets_no_further_than_a_request(name: str, tool: str) -> None:
    pair = played(tool, "redirects")[name]
    denied, control = pair["denied"], pair["control"]
    expected = {"other": 200} | dict.fromkeys(UNUSABLE, "network_error")
    outcome = expected.get(name, "url_not_allowed")
    assert denied["outcome"] == outcome
    assert "secret" not in denied.get("message", "")
    assert set(denied["connects"]) == {PUBLIC}
    assert len(denied["requests"]) == {"loop": 6, "other": 2}.get(name, 1)
    if tool == "http_request":  # the other has nothing to tell
        assert denied["requests"][0]["authorization"] == "Bearer k"
    match name:
        case "metadata" | "loopback" | "relative" | "inside":
            # Let through, it is answered there, and is not told what was meant for another.
            assert (control["outcome"], len(control["connects"])) == (200, 2)
            assert {"authorization", "cookie"}.isdisjoint(control["requests"][1])
        case "port":
            assert (control["outcome"], len(control["connects"])) == ("network_error", 2)
        case "other":
            assert {"authorization", "cookie"}.isdisjoint(denied["requests"][1])
        case "loop" if tool == "http_request":
            # Of one origin, nothing is held back.
            assert all(request["authorization"] for request in denied["requests"])
        case _:
            assert control["outcome"] == outcome


PROXY = "198.51.100.7"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def environment(
    folder: Path, tool: str = "http_request", excepted: str = "", *, trusts: bool = True
) -> Any:
    netrc = folder / ".netrc"
    netrc.write_text("machine good.test login me password canary\n")
    netrc.chmod(0o600)
    return in_namespace(
        "environment",
        tool,
        **dict.fromkeys(PROXIES, f"http://{PROXY}:80"),
        HOME=str(folder),
        NETRC=str(netrc),
        NO_PROXY=excepted,
        no_proxy=excepted,
        SSLKEYLOGFILE=str(folder / f"{tool} {excepted} keys.log"),
        **({"SSL_CERT_FILE": str(CERTIFICATE)} if trusts else {}),
    )


@BOTH
@pytest.mark.parametrize(("excepted", "reached"), [("", PROXY), ("good.test", PUBLIC)])
def test_case_20_the_environment_has_no_proxy_and_no_password_for_us(
    folder: Path, excepted: str, reached: str, tool: str
) -> None:
    found = environment(folder, tool, excepted)
    for scheme in ("http", "https"):
        row = found[scheme]
        assert (row["outcome"], row["connects"]) == (200, [PUBLIC])
        [request] = row["requests"]
        assert request["host"] == "good.test"
        assert {"authorization", "proxy-authorization"}.isdisjoint(request)
    # The control: who asks this environment is led to the proxy, and sends the password.
    control = found["control"]
    assert control["connects"][0] == reached
    assert control["request"]["authorization"].startswith("Basic ")


def test_case_20_session_keys_are_not_written_down(folder: Path) -> None:
    found = environment(folder)
    assert found["https"]["outcome"] == 200
    assert found["logged_keys"] is False
    assert found["control"]["logged_keys"] is True


def test_only_authorities_that_the_operator_trusts_are_trusted(folder: Path) -> None:
    untrusted = environment(folder, trusts=False)["https"]
    assert (untrusted["outcome"], untrusted["requests"]) == ("network_error", [])
    assert "certificate" in untrusted["message"]
    trusted = environment(folder)["https"]
    assert (trusted["outcome"], trusted["connects"]) == (200, [PUBLIC])
