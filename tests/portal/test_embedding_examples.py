"""The examples for programs that don't know Trio run as they stand, and do what they say."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import callboard
from callboard.portals import aio
from callboard.providers.testing.script import Step, fail, reply, stall
from callboard.runtime.events import TurnEnded
from support.examples import EXAMPLES, run


def test_plain_program(tmp_path: Path) -> None:
    printed = run("plain_program.py", tmp_path)
    assert "[get_current_time: success]" in printed
    assert '[delete_file {"path":"now.txt"} is allowed]' in printed
    assert "delete_file: success\nwrite_file: success\n" in printed
    assert not (tmp_path / "now.txt").exists()


def test_asyncio_program(tmp_path: Path) -> None:
    printed = run("asyncio_program.py", tmp_path).splitlines()
    assert printed[0] == "It is 21.5 °C."
    assert printed[-2:] == ["That took too long.", "The turn is cancelled."]


def test_notebook_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As IPython does it, without a kernel: each cell is compiled with await allowed, and run in the one loop."""
    monkeypatch.chdir(tmp_path)
    cells = (EXAMPLES / "notebook_cells.py").read_text(encoding="utf-8").split("# %%")
    names: dict[str, Any] = {"__name__": "__main__"}

    async def notebook() -> None:
        for cell in cells:
            code = compile("#" + cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            returned = eval(code, names)
            if inspect.iscoroutine(returned):
                await returned
            await asyncio.sleep(0)

    asyncio.run(notebook())
    printed = capsys.readouterr().out
    assert len(cells) == 7
    assert (tmp_path / "list.txt").read_text().strip() == "buy milk"
    assert "The time in Tokyo is" in printed
    assert "user: Write 'buy milk' to list.txt." in printed


# ── FastAPI ──────────────────────────────────────────────────────────────────────────────────────


def load_app(monkeypatch: pytest.MonkeyPatch, name: str = "fastapi_app") -> ModuleType:
    """The example as a module of its own."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where its annotations are looked up
    spec.loader.exec_module(module)
    return module


class Client:
    """One request to an ASGI app, as a server passes it on: its answer is seen as it comes.

    Attributes:
        bodies: The pieces of the body so far.
    """

    def __init__(self, app: Any, session: str, prompt: str, *, spec_version: str) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.bodies: list[str] = []
        self.has_text = asyncio.Event()
        self.hung_up = asyncio.Event()
        self._body: bytes | None = json.dumps({"prompt": prompt}).encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": spec_version},
            "http_version": "1.1",
            "method": "POST",
            "path": f"/sessions/{session}/prompt",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        elif message["body"]:
            self.bodies.append(message["body"].decode())
            self.has_text.set()


def answering(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch, workspace: Path, *steps: Any
) -> None:
    """Has the example's runtime play these steps in place of the rehearsal model."""
    opening = aio.open_runtime

    def open_runtime(*, model: str) -> aio.Opening:
        scripted = callboard.ScriptedModel(steps)
        return opening(model=scripted, workspace=workspace, environ={}, strict=True)

    monkeypatch.setattr(aio, "open_runtime", open_runtime)


@pytest.mark.parametrize("spec_version", ["2.0", "2.4"])
def test_fastapi_streams_the_answer(
    spec_version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_app(monkeypatch)
    answering(module, monkeypatch, tmp_path, reply(["Hello", ", you."]), reply("Bye."))

    async def main() -> None:
        async with module.app.router.lifespan_context(module.app):
            first = Client(module.app, "new", "Hi.", spec_version=spec_version)
            await first.task
            assert (first.status, first.bodies) == (200, ["Hello", ", you."])
            again = Client(
                module.app, first.headers["x-session"], "Well?", spec_version=spec_version
            )
            await again.task
            assert again.bodies == ["Bye."]
            lost = Client(module.app, "session_none", "Hi.", spec_version=spec_version)
            await lost.task
            assert lost.status == 404
            assert "no session session_none" in lost.bodies[0]

    asyncio.run(main())


def test_a_client_of_fastapi_that_hangs_up_cancels_its_turn_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_app(monkeypatch)
    answering(module, monkeypatch, tmp_path, stall("Well"), reply("Hello."))

    async def main() -> None:
        async with module.app.router.lifespan_context(module.app):
            runtime: aio.Runtime = module.app.state.runtime
            fickle = Client(module.app, "new", "Wait.", spec_version="2.0")
            await fickle.has_text.wait()
            other = Client(module.app, "new", "Hi.", spec_version="2.0")
            await other.task
            assert other.bodies == ["Hello."]
            assert len(await runtime.store.open_turns()) == 1
            fickle.hung_up.set()
            await fickle.task
            assert await runtime.store.open_turns() == []
            [*_, last] = await runtime.store.events(fickle.headers["x-session"])
            assert isinstance(last.event, TurnEnded)
            assert last.event.outcome == "cancelled"

    asyncio.run(main())


# ── Flask ────────────────────────────────────────────────────────────────────────────────────────


def test_flask_answers_streams_and_says_what_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Step] = [
        reply("Hello."),
        reply(["By", "e."]),
        fail("It broke.", error_type="provider"),
    ]
    opening = callboard.start_in_thread

    def start_in_thread(*, model: str) -> Any:
        return opening(model=callboard.ScriptedModel(steps), workspace=tmp_path, environ={})

    monkeypatch.setattr(callboard, "start_in_thread", start_in_thread)
    monkeypatch.setattr("atexit.register", lambda _: None)
    module = load_app(monkeypatch, "flask_app")
    with module.runtime:
        client = module.app.test_client()
        first = client.post("/sessions/new", data={"prompt": "Hi."}).json
        assert first["answer"] == "Hello."
        streamed = client.post(f"/sessions/{first['session']}/stream", data={"prompt": "Well?"})
        assert [*streamed.iter_encoded()] == [b"By", b"e."]
        broken = client.post(f"/sessions/{first['session']}", data={"prompt": "Once more."})
        assert (broken.status_code, broken.json["error"]) == (502, "provider")
        lost = client.post("/sessions/none", data={"prompt": "Hi."})
        assert (lost.status_code, lost.json["error"]) == (404, "not_found")
