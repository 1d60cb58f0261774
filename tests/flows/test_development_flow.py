"""Development tools through the front door: who is asked, whose name and credential they get, and who has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.keys.store import open_key_store
from callboard.config.sections import GitSettings
from callboard.config.settings import NetworkSettings, Settings
from callboard.runtime.definitions import Capability, SessionKind
from callboard.runtime.messages import ApprovalRequest
from callboard.runtime.redaction import Secret
from callboard.tools.builtin import builtin_tools
from callboard.tools.registry import ToolRegistry
from support.stage import results
from support.tools.development_bench import make_repository, plain_git
from support.tools.git_server import open_git_server

TOKEN = "token-90c2f7"
NAMES = {
    *("git_status", "git_diff", "git_log", "git_commit", "git_push"),
    *("run_tests", "format_code", "install_package"),
}


pytestmark = pytest.mark.usefixtures("sandbox")


async def test_a_commit_is_made_in_the_configured_name_and_a_push_asks_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path / "home"))
    work = make_repository(tmp_path / "work")
    (tmp_path / "served").mkdir()
    plain_git(tmp_path / "served", "init", "-q", "--bare", "-b", "main", "far.git")
    asked: list[ApprovalRequest] = []

    async def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return len(asked) == 2

    with open_git_server(tmp_path / "served") as server:
        server.credential = f"ada:{TOKEN}"
        work.git("remote", "add", "origin", server.url("far.git"))
        work.write("new", "x")
        place = f"127.0.0.1:{server.port}"
        settings = Settings(
            git=GitSettings(name="Ada", email="ada@example.org"),
            network=NetworkSettings(allow=(place,)),
        )
        data = tmp_path / "data"
        store = open_key_store(data, settings.keys, {})
        store.put("git", f"http://{place}", Secret(f"ada:{TOKEN}"))
        commit, status, denied, pushed = await results(
            tmp_path,
            ("git_commit", {"message": "a file"}),
            ("git_status", {}),
            ("git_push", {}),
            ("git_push", {"branch": "main"}),
            settings=settings,
            data=data,
            on_approval=answer,
        )
    assert commit["result"]["files"] == [{"path": "new", "state": "added"}]
    assert work.git("log", "-1", "--format=%an %s") == "Ada a file\n"
    assert status["result"]["entries"] == []
    assert denied["error_type"] == "permission_denied"
    assert pushed["result"]["outcome"] == "created"
    assert [request.tool for request in asked] == ["git_push", "git_push"]
    assert all("a file" in (request.preview or "") for request in asked)
    assert TOKEN not in str(asked)
    assert TOKEN not in str(pushed)
    far = tmp_path / "served" / "far.git"
    assert plain_git(far, "rev-parse", "main") == work.git("rev-parse", "main")


@pytest.mark.parametrize("change", ["commit", "branch", "url", "nothing"])
async def test_case_27_what_a_person_saw_is_what_is_pushed(tmp_path: Path, change: str) -> None:
    work = make_repository(tmp_path / "work")
    work.git("branch", "other")
    (tmp_path / "served").mkdir()
    far = tmp_path / "served" / "far.git"
    plain_git(tmp_path / "served", "init", "-q", "--bare", "-b", "main", "far.git")
    plain_git(tmp_path / "served", "init", "-q", "--bare", "-b", "main", "other.git")

    async def answer(request: ApprovalRequest) -> bool:
        if change == "commit":
            work.git("commit", "-q", "--allow-empty", "-m", "never shown")
        elif change == "branch":
            work.git("symbolic-ref", "HEAD", "refs/heads/other")
        elif change == "url":
            work.git("remote", "set-url", "origin", server.url("other.git"))
        return True

    with open_git_server(tmp_path / "served") as server:
        work.git("remote", "add", "origin", server.url("far.git"))
        settings = Settings(network=NetworkSettings(allow=(f"127.0.0.1:{server.port}",)))
        [pushed] = await results(tmp_path, ("git_push", {}), settings=settings, on_approval=answer)
    if change == "nothing":
        assert pushed["result"]["outcome"] == "created"
        return
    assert pushed["error_type"] == "permission_denied"
    assert "than was shown" in pushed["message"]
    for folder in (far, far.with_name("other.git")):
        assert plain_git(folder, "for-each-ref") == ""


async def test_what_is_elevated_asks_even_where_hardly_anything_does(tmp_path: Path) -> None:
    outcome = await results(
        tmp_path,
        ("install_package", {"manager": "pip", "packages": ["x"]}),
        policy="auto",
        on_approval="deny",
    )
    assert [each["error_type"] for each in outcome] == ["permission_denied"]
    assert not (tmp_path / "work" / ".venv").exists()


def test_workers_and_machines_without_a_sandbox_have_none_of_them() -> None:
    registry = ToolRegistry(builtin_tools())

    def names(kind: SessionKind, among: ToolRegistry = registry) -> set[str]:
        return {definition.name for definition in among.definitions(None, kind)}

    assert names(SessionKind.MAIN) >= NAMES
    assert names(SessionKind.BRANCH) >= NAMES
    assert not names(SessionKind.WORKER) & NAMES
    weak = ToolRegistry(
        builtin_tools(),
        lambda definition: "too weak" if Capability.PROCESSES in definition.needs else None,
    )
    assert not names(SessionKind.MAIN, weak) & NAMES
