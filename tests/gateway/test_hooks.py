"""Deliveries of other systems: who may, what becomes of them, and that each is one input."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from callboard.config.files import parse_settings
from callboard.config.keys.store import open_key_store
from callboard.config.settings import KeySettings
from callboard.embedding.unattended.once import SESSION
from callboard.gateway.hooks import deliveries
from callboard.gateway.hooks.deliveries import DELIVERY, SAME_BODY_SECONDS
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import InputAccepted
from callboard.runtime.hooks.hook import MAX_BODY_BYTES, SECRET_PLACE, key_name
from callboard.runtime.hooks.signatures import WINDOW_SECONDS
from callboard.runtime.identity import RequestKey
from callboard.runtime.redaction import Secret
from callboard.runtime.store import sqlite_store
from callboard.runtime.store.tables import requests
from support.environment import finds_support
from support.gateway import hooked_daemon
from support.gateway.daemon_scene import Daemon
from support.gateway.hook_scene import (
    SECRET,
    by_bearer,
    by_github,
    by_standard,
    by_stripe,
    deliver,
    made,
    open_hooked,
)

HOOKS = """
[hooks.github]
signature = "github"
prompt = "Look at this {event}, which is {delivery}."
budget = { tokens = 1000 }
[hooks.stripe]
signature = "stripe"
prompt = "A {event}."
[hooks.standard]
signature = "standard"
prompt = "Something came."
[hooks.bearer]
prompt = "Something came."
max_per_minute = 3
[hooks.hourly]
prompt = "An hour is over."
[hooks.same]
prompt = "And another."
session = "same"
[hooks.paused]
prompt = "Nothing."
paused = true
[hooks.keyless]
prompt = "Nothing."
[hooks.empty]
prompt = "Nothing."
"""
NOW = 1_800_000_000
BODY = b'{"id": "evt_1", "type": "invoice.paid", "action": "opened"}'
BY_FORM: dict[str, dict[str, str]] = {
    "github": by_github(BODY),
    "stripe": by_stripe(BODY, NOW),
    "standard": by_standard(BODY, NOW),
    "bearer": by_bearer("once"),
}


class Clock:
    """The wall clock of hooks and of the record, which a test sets."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(deliveries, "wall_clock", own)
    opened = partial(sqlite_store.open_disk_store, now_ms=lambda: int(own.now * 1000))
    monkeypatch.setattr(sqlite_store, "open_disk_store", opened)
    return own


async def inputs(daemon: Daemon) -> list[InputAccepted]:
    """All inputs on record."""
    found: list[InputAccepted] = []
    for row in await daemon.runtime.sessions():
        events = await daemon.runtime.store.events(row.session_id)
        found.extend(each.event for each in events if isinstance(each.event, InputAccepted))
    return found


# ── what becomes of a delivery ───────────────────────────────────────────────────────────────────


async def test_a_signed_delivery_is_an_input_and_a_repeated_one_is_the_same(
    tmp_path: Path, clock: Clock
) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        answers: dict[str, str] = {}
        for name, headers in BY_FORM.items():
            answer = await deliver(daemon, name, BODY, headers)
            made(answer)
            answers[name] = answer.body
        for name, headers in BY_FORM.items():
            assert (await deliver(daemon, name, BODY, headers)).body == answers[name]
        found = await inputs(daemon)
        assert sorted(each.text for each in found) == [
            "A invoice.paid.",
            "Look at this push, which is d-1.",
            "Something came.",
            "Something came.",
        ]
        assert [row.is_tainted for row in await daemon.runtime.sessions()] == [True] * 4
        assert all(len(each.attachments) == 1 for each in found)


async def test_many_at_once_are_one(tmp_path: Path, clock: Clock) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        bodies: list[str] = []

        async def send() -> None:
            answer = await deliver(daemon, "github", BODY, by_github(BODY))
            made(answer)
            bodies.append(answer.body)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(send)
        assert len(set(bodies)) == 1
        assert len(await inputs(daemon)) == 1


async def test_a_delivery_is_known_again_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        before = {
            name: (await deliver(daemon, name, BODY, headers)).body
            for name, headers in BY_FORM.items()
        }
    async with open_hooked(tmp_path, HOOKS) as daemon:
        for name, headers in BY_FORM.items():
            assert (await deliver(daemon, name, BODY, headers)).body == before[name]
        assert len(await inputs(daemon)) == len(BY_FORM)


@pytest.mark.parametrize("start", [0, SAME_BODY_SECONDS // 2, SAME_BODY_SECONDS - 1])
async def test_a_body_that_nobody_named_is_the_same_for_an_hour(
    tmp_path: Path, clock: Clock, start: int
) -> None:
    """Wherever in an hour of the clock the first came: what sends each hour begins something each hour."""
    clock.now = NOW // SAME_BODY_SECONDS * SAME_BODY_SECONDS + start
    async with open_hooked(tmp_path, HOOKS) as daemon:
        seen: list[tuple[str, str]] = []
        for wait in (0, SAME_BODY_SECONDS - 1, 1, SAME_BODY_SECONDS - 1, 2):
            clock.now += wait
            seen.append(made(await deliver(daemon, "hourly", BODY, by_bearer())))
        assert seen[0] == seen[1] != seen[2] == seen[3] != seen[4] != seen[0]
        assert made(await deliver(daemon, "hourly", b"{}", by_bearer())) not in seen


async def test_a_replayed_body_gets_nothing_new_by_another_name(
    tmp_path: Path, clock: Clock
) -> None:
    """GitHub does not sign the id of a delivery: who has seen one could send it again and again."""
    async with open_hooked(tmp_path, HOOKS) as daemon:
        first = made(await deliver(daemon, "github", BODY, by_github(BODY, "d-1")))
        assert made(await deliver(daemon, "github", BODY, by_github(BODY, "d-2"))) == first
        other = BODY + b" "
        assert made(await deliver(daemon, "github", other, by_github(other, "d-1"))) != first


@pytest.mark.parametrize("kept", [2, 100])
async def test_the_same_session_takes_all_deliveries_until_it_is_deleted(
    tmp_path: Path, clock: Clock, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when so many names came since it was begun that its own is dropped."""
    monkeypatch.setattr(requests, "MAX_REQUESTS", kept)
    async with open_hooked(tmp_path, HOOKS) as daemon:
        first, one = made(await deliver(daemon, "same", b"1", by_bearer()))
        second, two = made(await deliver(daemon, "same", b"2", by_bearer()))
        assert (first, one != two) == (second, True)
        assert made(await deliver(daemon, "same", b"2 and a half", by_bearer()))[0] == first
        await (await daemon.runtime.get_session(first)).delete()
        third, _ = made(await deliver(daemon, "same", b"3", by_bearer()))
        assert third != first
        assert made(await deliver(daemon, "same", b"4", by_bearer()))[0] == third


async def test_a_session_that_was_deleted_before_it_had_its_delivery_blocks_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        sent = RequestKey(key_name("bearer"), DELIVERY, hashlib.sha256(b"once").hexdigest(), "")
        name = msgspec.structs.replace(sent, method=sent.method + SESSION)
        begun = await daemon.runtime.create_session(request=name)  # and killed
        await begun.delete()
        first = made(await deliver(daemon, "bearer", BODY, by_bearer("once")))
        assert first[0] != begun.session_id
        assert made(await deliver(daemon, "bearer", BODY, by_bearer("once"))) == first


async def test_github_asks_whether_a_hook_is_right(tmp_path: Path, clock: Clock) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        headers = by_github(BODY) | {"x_github_event": "ping"}
        assert (await deliver(daemon, "github", BODY, headers)).status == 200
        assert await inputs(daemon) == []


@contextmanager
def killable(home: Path) -> Generator[subprocess.Popen[str]]:
    """A daemon with the hook `ci`, which is killed at the end; it says its port."""
    program = [sys.executable, hooked_daemon.__file__, str(home)]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, env=finds_support()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_daemon_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Killed while a delivery is under way, and right after one was accepted."""
    accepted = b""
    for body in (b"1", b"2"):
        with killable(tmp_path) as process:
            assert process.stdout is not None
            port = int(await trio.to_thread.run_sync(process.stdout.readline))
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                lines = [f"{n.replace('_', '-')}: {v}" for n, v in by_github(body).items()]
                head = [f"POST /hooks/ci HTTP/1.1\r\nhost: 127.0.0.1:{port}", *lines]
                sent = "\r\n".join([*head, "content-length: 1", "", ""]).encode() + body
                await stream.send_all(sent)
                if body == b"2":
                    accepted = bytes(await stream.receive_some()).partition(b"\r\n\r\n")[2]
                process.kill()
    async with open_hooked(tmp_path, hooked_daemon.HOOK) as daemon:
        assert made(await deliver(daemon, "ci", b"2", by_github(b"2"))) == tuple(
            json.loads(accepted).values()
        )
        made(await deliver(daemon, "ci", b"1", by_github(b"1")))
        assert len(await inputs(daemon)) == 2
        assert len(await daemon.runtime.sessions()) == 1


# ── who may not ──────────────────────────────────────────────────────────────────────────────────


def wrong_deliveries() -> list[tuple[str, dict[str, str]]]:
    """Hooks and headers that are not let in."""
    other = "another-secret-0123456789"
    early, late = NOW + WINDOW_SECONDS + 1, NOW - WINDOW_SECONDS - 1
    stripe = by_stripe(BODY, NOW)["stripe_signature"]
    return [
        ("unknown", by_github(BODY)),
        ("unknown", by_bearer()),
        ("", by_github(BODY)),
        ("github/x", by_github(BODY)),
        ("paused", by_bearer()),
        ("keyless", by_bearer()),
        ("empty", by_bearer()),
        ("empty", by_bearer(secret="")),
        ("empty", by_bearer(secret=deliveries._NO_SECRET)),
        ("unknown", by_bearer(secret=deliveries._NO_SECRET)),
        ("github", {}),
        ("github", by_github(BODY, secret=other)),
        ("github", by_github(BODY + b" ")),
        ("github", by_bearer()),
        ("github", by_github(BODY) | {"x_hub_signature_256": "sha256="}),
        ("github", by_github(BODY) | {"x_hub_signature_256": "sha256=\xe9"}),
        ("stripe", by_stripe(BODY, NOW, secret=other)),
        ("stripe", by_stripe(BODY, early)),
        ("stripe", by_stripe(BODY, late)),
        ("stripe", {"stripe_signature": stripe.replace(f"t={NOW}", f"t={NOW + 1}")}),
        ("stripe", {"stripe_signature": f"{stripe},t={NOW}"}),
        ("stripe", {"stripe_signature": ""}),
        ("standard", by_standard(BODY, NOW, secret=other)),
        ("standard", by_standard(BODY, early)),
        ("standard", by_standard(BODY, late)),
        ("standard", by_standard(BODY, NOW) | {"webhook_id": "msg-2"}),
        ("bearer", by_bearer(secret=other)),
        ("bearer", {"authorization": f"Basic {SECRET}"}),
        ("bearer", {"authorization": "Bearer "}),
    ]


async def test_whoever_has_not_signed_learns_nothing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.gateway.door.rate_limits.MAX_BAD_TOKENS", 1000)
    async with open_hooked(tmp_path, HOOKS) as daemon:
        store = open_key_store(tmp_path / "data", KeySettings(), {"CALLBOARD_HOME": str(tmp_path)})
        store.put(key_name("empty"), SECRET_PLACE, Secret(""))  # which `keys set` refuses
        answers = set()
        for name, headers in wrong_deliveries():
            answer = await deliver(daemon, name, BODY, headers)
            assert answer.status == 401, (name, headers)
            answers.add((answer.body, *sorted(answer.headers.items())))
        assert len(answers) == 1
        assert await inputs(daemon) == []
        for name, headers in BY_FORM.items():
            assert (await deliver(daemon, name, BODY, headers)).status == 202
        for at in (NOW - WINDOW_SECONDS, NOW + WINDOW_SECONDS):
            assert (await deliver(daemon, "stripe", BODY, by_stripe(BODY, at))).status == 202


async def test_wrong_signatures_count_as_wrong_tokens_and_the_right_one_comes_in(
    tmp_path: Path, clock: Clock
) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        wrong = by_github(BODY, secret="another-secret-0123456789")
        statuses = [(await deliver(daemon, "github", BODY, wrong)).status for _ in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        made(await deliver(daemon, "github", BODY, by_github(BODY)))


async def test_bodies_that_are_too_large_or_no_text_are_refused(
    tmp_path: Path, clock: Clock
) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        for body, status in (
            (b"x" * MAX_BODY_BYTES, 202),
            (b"x" * (MAX_BODY_BYTES + 1), 413),
            (b"x" * 10_000_000, 413),
            (b"\xff\xfe", 415),
            (b"", 202),
        ):
            for name in ("github", "unknown"):
                answer = await deliver(daemon, name, body, by_github(body))
                expected = status if name == "github" or status == 413 else 401
                assert answer.status == expected, (name, len(body))


async def test_a_flood_of_one_hook_is_bounded(tmp_path: Path, clock: Clock) -> None:
    async with open_hooked(tmp_path, HOOKS) as daemon:
        first = await deliver(daemon, "bearer", b"0", by_bearer())
        more = [await deliver(daemon, "bearer", b"%d" % n, by_bearer()) for n in range(1, 6)]
        assert [each.status for each in more] == [202, 202, 429, 429, 429]
        assert 0 < int(more[-1].headers["retry-after"]) <= 60
        # What is on record already is none of them, and other hooks go on.
        assert (await deliver(daemon, "bearer", b"0", by_bearer())).body == first.body
        made(await deliver(daemon, "github", BODY, by_github(BODY)))
        assert len(await inputs(daemon)) == 4


async def test_its_secret_is_shown_nowhere(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_hooked(tmp_path, HOOKS) as daemon:
        for name, headers in BY_FORM.items():
            made(await deliver(daemon, name, BODY, headers))
        await deliver(daemon, "bearer", b"a", by_bearer(secret=f"{SECRET}x"))
        shown = caplog.text
        for row in await daemon.runtime.sessions():
            for stored in await daemon.runtime.store.events(row.session_id):
                shown += repr(stored)
        assert SECRET not in shown
        assert "hook github" in caplog.text
    files = [each for each in _files(tmp_path) if SECRET.encode() in each.read_bytes()]
    assert files == []


def _files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


# ── what can't be a hook ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('prompt = " "', "prompt: it is empty"),
        ('prompt = "x"\nsignature = "gitlab"', "signature"),
        ('prompt = "x"\nworkspace = "here"', "not an absolute path"),
        ('prompt = "x"\nmax_per_minute = 0', "max_per_minute"),
        ('prompt = "x"\nsecret = "abc"', "secret"),
        ("session = 'new'", "prompt"),
    ],
)
async def test_a_hook_that_is_none_is_refused_with_its_line(
    tmp_path: Path, line: str, words: str
) -> None:
    with pytest.raises(ValidationError, match="hooks") as refused:
        async with open_hooked(tmp_path, f"[hooks.x]\n{line}\n"):
            pass
    assert words in str(refused.value)
    assert "line" in str(refused.value)
    assert "abc" not in str(refused.value)


def test_a_webhook_of_the_name_of_another_is_refused_with_both_places(tmp_path: Path) -> None:
    own = '[webhooks.notify]\nurl = "https://b.example/y"\n'
    parse_settings(own, tmp_path / "callboard.toml")
    with pytest.raises(ValidationError, match=r"line 3.*webhooks\.notify.*line 2.* this name"):
        parse_settings(
            f'[notify]\nwebhook = "https://a.example/x"\n{own}', tmp_path / "callboard.toml"
        )
