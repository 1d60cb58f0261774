"""git_status, git_diff, git_log and git_commit: what they say, and what a repository can't make them run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

import pytest

from callboard.runtime.definitions import ErrorType
from callboard.tools.workshop import Author
from support.tools.development_bench import Bench, make_repository

pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_repository(tmp_path / "work")


async def test_the_status_has_every_kind_of_change(bench: Bench) -> None:
    for name in ("changed", "moved", "gone", "both"):
        bench.write(name, f"{name}\n" * 5)
    bench.git("add", ".")
    bench.git("commit", "-q", "-m", "more")
    bench.write("changed", "other")
    bench.git("mv", "moved", "mv -rf\nö")
    bench.git("rm", "-q", "gone")
    bench.write("both", "staged")
    bench.git("add", "both")
    bench.write("both", "and changed")
    bench.write("new", "")
    output = await bench.output("git_status")
    commit = bench.git("rev-parse", "HEAD").strip()
    assert (output["branch"], output["commit"]) == ("main", commit)
    assert sorted(output["entries"], key=itemgetter("path")) == [
        {"path": "both", "staged": "modified", "unstaged": "modified"},
        {"path": "changed", "unstaged": "modified"},
        {"path": "gone", "staged": "deleted"},
        {"path": "mv -rf\nö", "staged": "renamed", "from": "moved"},
        {"path": "new", "unstaged": "untracked"},
    ]
    [only] = (await bench.output("git_status", paths=["changed"]))["entries"]
    assert only["path"] == "changed"


async def test_the_status_says_how_far_the_branch_is_from_its_upstream(
    bench: Bench, tmp_path: Path
) -> None:
    bench.git("clone", "-q", "--bare", ".", str(tmp_path / "far.git"))
    bench.git("remote", "add", "origin", str(tmp_path / "far.git"))
    bench.git("fetch", "-q", "origin")
    bench.git("branch", "-q", "--set-upstream-to=origin/main")
    bench.git("commit", "-q", "--allow-empty", "-m", "ahead")
    output = await bench.output("git_status")
    assert (output["upstream"], output["ahead"], output["behind"]) == ("origin/main", 1, 0)
    assert output["entries"] == []


async def test_a_repository_without_a_commit_and_one_without_a_branch(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    bench = Bench(folder)
    failure = await bench.failure("git_status")
    assert failure.error_type == ErrorType.EXECUTION_ERROR
    assert "no git repository" in str(failure)
    author, bench.author = bench.author, None
    assert "no git repository" in str(await bench.failure("git_commit", message="x"))
    bench.author = author
    bench.git("init", "-q", "-b", "main")
    bench.write("a", "a")
    assert (await bench.output("git_status"))["commit"] is None
    assert "There is no commit yet" in str(await bench.failure("git_log"))
    await bench.output("git_commit", message="first")
    bench.git("checkout", "-q", "--detach")
    assert (await bench.output("git_status"))["branch"] is None


async def test_a_diff_has_its_files_counted(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    (bench.workspace / "b").write_bytes(b"\0\1")
    bench.git("add", "b")
    output = await bench.output("git_diff")
    assert output["files"] == [{"path": "a.txt", "added": 1, "deleted": 0}]
    assert output["diff"].endswith("@@ -1 +1,2 @@\n one\n+two\n")
    staged = await bench.output("git_diff", staged=True)
    assert staged["files"] == [{"path": "b", "binary": True}]
    bench.git("commit", "-q", "-a", "-m", "two")
    between = await bench.output("git_diff", base="HEAD~1", target="HEAD", paths=["a.txt"])
    assert between["files"] == [{"path": "a.txt", "added": 1, "deleted": 0}]
    assert await bench.output("git_diff") == {"files": [], "diff": ""}


async def test_a_large_diff_is_cut_and_says_so(bench: Bench) -> None:
    bench.write("a.txt", "line\n" * 200_000)
    output = await bench.output("git_diff")
    assert output["truncated"] is True
    assert output["files"] == [{"path": "a.txt", "added": 200_000, "deleted": 1}]
    assert len(output["diff"]) == 256 * 1024


async def test_the_log_is_in_records(bench: Bench) -> None:
    for number in range(3):
        bench.git("commit", "-q", "--allow-empty", "-m", f"subject {number}\n\nbody | %x00")
    commits = (await bench.output("git_log", limit=2))["commits"]
    assert [commit["subject"] for commit in commits] == ["subject 2", "subject 1"]
    assert commits[0]["author"] == "Bob <bob@example.org>"
    assert commits[0]["commit"] == bench.git("rev-parse", "HEAD").strip()
    ranged = (await bench.output("git_log", revision="HEAD~3..HEAD~1"))["commits"]
    assert [commit["subject"] for commit in ranged] == ["subject 1", "subject 0"]
    [first] = (await bench.output("git_log", paths=["a.txt"]))["commits"]
    assert first["subject"] == "begin"


async def test_a_commit_takes_all_or_what_is_named(bench: Bench) -> None:
    bench.write("a.txt", "two\n")
    bench.write("b/new", "new")
    bench.write("c", "stays")
    part = await bench.output("git_commit", message="part\n\n# kept", paths=["a.txt", "b"])
    assert part["subject"] == "part"
    assert part["files"] == [
        {"path": "a.txt", "state": "modified"},
        {"path": "b/new", "state": "added"},
    ]
    assert (
        bench.git("log", "-1", "--format=%B%an <%ae> %cn")
        == "part\n\n# kept\nAda <ada@example.org> Ada\n"
    )
    (bench.workspace / "a.txt").unlink()
    rest = await bench.output("git_commit", message="rest")
    assert [each["state"] for each in rest["files"]] == ["deleted", "added"]
    assert rest["changed"] == 2
    assert bench.git("status", "--porcelain") == ""
    assert "nothing has changed" in str(await bench.failure("git_commit", message="again"))


async def test_what_was_staged_as_deleted_or_moved_is_committed(bench: Bench) -> None:
    bench.git("mv", "a.txt", "z.txt")
    bench.write("other", "x")
    moved = await bench.output("git_commit", message="moved", paths=["z.txt", "a.txt"])
    assert [each["path"] for each in moved["files"]] == ["a.txt", "z.txt"]
    bench.git("rm", "-q", "z.txt")
    gone = await bench.output("git_commit", message="gone", paths=["z.txt"])
    assert gone["files"] == [{"path": "z.txt", "state": "deleted"}]
    assert bench.git("status", "--porcelain") == "?? other\n"


async def test_a_conflict_is_not_committed(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "side")
    bench.write("a.txt", "side\n")
    bench.git("commit", "-q", "-a", "-m", "side")
    bench.git("checkout", "-q", "main")
    bench.write("a.txt", "main\n")
    bench.git("commit", "-q", "-a", "-m", "main")
    with pytest.raises(subprocess.CalledProcessError):
        bench.git("merge", "side")
    assert "in conflict" in str(await bench.failure("git_commit", message="x"))
    bench.write("a.txt", "both\n")
    bench.git("add", "a.txt")
    merged = await bench.output("git_commit", message="merged")
    assert len(bench.git("rev-list", "--parents", "-1", "HEAD").split()) == 3
    assert merged["files"] == [{"path": "a.txt", "state": "modified"}]


async def test_case_52_names_and_an_address_are_words_and_run_nothing(bench: Bench) -> None:
    bench.author = Author("A `touch ran`", "a;$(touch ran)@example.org")
    names = ["-rf", ";id", "$(touch ran)", "two\nlines", "--output=x", ":(top)x"]
    for name in names:
        bench.write(name, "x")
    output = await bench.output("git_commit", message="$(touch ran)\n-m", paths=names)
    assert sorted(each["path"] for each in output["files"]) == sorted(names)
    told = bench.git("log", "-1", "--format=%an <%ae>%n%s")
    assert told == "A `touch ran` <a;$(touch ran)@example.org>\n$(touch ran) -m\n"
    assert not (bench.workspace / "ran").exists()
    assert not (bench.workspace / "x").exists()


@pytest.mark.parametrize("revision", ["--output=x", "-c", "a:b", "", "a b", "x\n--all"])
async def test_a_revision_can_not_be_an_option(bench: Bench, revision: str) -> None:
    for name, field in (("git_log", "revision"), ("git_diff", "base")):
        failure = await bench.failure(name, **{field: revision})
        assert failure.error_type == ErrorType.VALIDATION_ERROR
        assert f"`{field}`: expected a commit as git names it, like main" in str(failure)
        assert "A-Za-z" not in str(failure)
    assert (await bench.output("git_log", revision="main"))["commits"]


async def test_a_revision_that_is_not_there_is_an_error_in_words(bench: Bench) -> None:
    for name, field in (("git_log", "revision"), ("git_diff", "base")):
        for revision in ("nowhere", "HEAD~99", "1234567", "main..nowhere"):
            failure = await bench.failure(name, **{field: revision})
            assert failure.error_type == ErrorType.VALIDATION_ERROR
            assert str(failure).startswith(f"There is no branch, tag or commit {revision} in ")
    assert (await bench.output("git_log", revision="HEAD"))["commits"]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd"])
async def test_a_path_outside_is_refused_as_by_every_tool(bench: Bench, path: str) -> None:
    bench.write("a.txt", "changed")
    more: dict[str, dict[str, str]] = {"git_commit": {"message": "x"}}
    for name in ("git_status", "git_diff", "git_log", "git_commit"):
        failure = await bench.failure(name, paths=[path], **more.get(name, {}))
        assert failure.error_type == ErrorType.PATH_NOT_ALLOWED, name
        assert str(failure).startswith(f"{path}: not allowed.")
    for inside in ("a.txt", "x/../a.txt", str(bench.workspace / "a.txt")):
        assert len((await bench.output("git_status", paths=[inside]))["entries"]) == 1


async def test_nobody_commits_without_a_name(bench: Bench) -> None:
    bench.write("new", "new")
    bench.author = None
    failure = await bench.failure("git_commit", message="x")
    assert "[git]" in str(failure)
    bench.author = Author("Ada", "ada@example.org")
    assert await bench.output("git_commit", message="x")


# ── what a repository would run ──────────────────────────────────────────────────────────────────

Plant = Callable[[Bench, str], None]


def hook(name: str) -> Plant:
    def plant(bench: Bench, program: str) -> None:
        path = bench.write(f".git/hooks/{name}", f"#!/bin/sh\n{program}\nexit 0\n")
        path.chmod(0o755)

    return plant


def setting(*pairs: tuple[str, str], attributes: str = "") -> Plant:
    def plant(bench: Bench, program: str) -> None:
        for name, value in pairs:
            bench.git("config", name, value.replace("RUN", program))
        if attributes:
            bench.write(".gitattributes", attributes)

    return plant


def included(bench: Bench, program: str) -> None:
    bench.write("more.cfg", f'[filter "a=b.c"]\n\tclean = "{program}; cat"\n')
    bench.write(".gitattributes", "*.txt filter=a=b.c\n")
    bench.git("config", "include.path", "../more.cfg")


def submodule(bench: Bench, program: str) -> None:
    """Its own configuration has a filter, and its file has changed."""
    inner = make_repository(bench.workspace / "sub")
    bench.git("-c", "advice.addEmbeddedRepo=false", "add", "sub")
    bench.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    bench.git("add", ".gitmodules")
    bench.git("commit", "-q", "-m", "sub")
    inner.write(".gitattributes", "*.txt filter=f\n")
    inner.git("config", "filter.f.clean", f"{program}; cat")
    inner.write("a.txt", "two\n")  # of the same size: git must look inside


LOOKS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "fsmonitor": (setting(("core.fsmonitor", "RUN; :")), ("status",)),
    "external diff": (setting(("diff.external", "sh -c 'RUN' --")), ("diff",)),
    "textconv": (
        setting(("diff.t.textconv", "sh -c 'RUN; cat \"$0\"'"), attributes="*.txt diff=t\n"),
        ("diff",),
    ),
    "diff driver": (
        setting(("diff.t.command", "sh -c 'RUN' --"), attributes="*.txt diff=t\n"),
        ("diff",),
    ),
    "clean filter": (
        setting(("filter.f.clean", "RUN; cat"), attributes="*.txt filter=f\n"),
        ("diff",),
    ),
    "filter process": (
        setting(
            ("filter.f.process", "RUN; exit 1"),
            ("filter.f.clean", "cat"),
            attributes="* filter=f\n",
        ),
        ("diff",),
    ),
    "included filter": (included, ("diff",)),
    "signature": (setting(("log.showSignature", "true"), ("gpg.program", "PROGRAM")), ("log",)),
    "submodule's filter": (submodule, ("status",)),
    "alias": (setting(("alias.st", "!RUN")), ("st",)),
}
"""What is planted, and what a person would run that shows that it works."""


@pytest.mark.parametrize("what", LOOKS)
async def test_looking_at_a_repository_runs_nothing_of_it(bench: Bench, what: str) -> None:
    plant, control = LOOKS[what]
    sign = bench.workspace / "ran"
    plant(bench, f"touch {sign}")
    if what == "signature":
        planted_signature(bench, sign)
    bench.write("a.txt", "changed, of another size\n")
    for name in ("git_status", "git_diff", "git_log"):
        assert (await bench.result(name)).output
    assert not sign.exists()
    by_a_person(bench, "git", *control)
    assert sign.exists(), f"the {what} does not even work under plain git"


def by_a_person(bench: Bench, *command: str) -> None:
    """Runs a command where all that the repository configures counts; the control of a refusal."""
    names = [
        f"GIT_{role}_{field}" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")
    ]
    subprocess.run(
        command,
        cwd=bench.workspace,
        capture_output=True,
        check=False,
        env={
            **dict.fromkeys(names, "x"),
            "PATH": os.environ["PATH"],
            "HOME": str(bench.workspace.parent),
        },
    )


def planted_signature(bench: Bench, sign: Path) -> None:
    program = bench.write("gpg", f"#!/bin/sh\ntouch {sign}\n")
    program.chmod(0o755)
    bench.git("config", "gpg.program", str(program))
    raw = bench.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    (bench.workspace / "raw").write_text(raw)
    commit = bench.git("hash-object", "-t", "commit", "-w", "raw").strip()
    bench.git("update-ref", "HEAD", commit)


COMMITS: dict[str, Plant] = {
    **{name: hook(name) for name in ("pre-commit", "commit-msg", "prepare-commit-msg")},
    **{name: hook(name) for name in ("post-commit", "reference-transaction", "post-index-change")},
    "signing": setting(("commit.gpgSign", "true"), ("gpg.program", "PROGRAM")),
    "editor": setting(("core.editor", "RUN; :"), ("commit.verbose", "true")),
    "hooks elsewhere": setting(("core.hooksPath", "elsewhere")),
    "fsmonitor": setting(("core.fsmonitor", "RUN; :")),
}


@pytest.mark.parametrize("what", COMMITS)
async def test_a_commit_runs_nothing_of_the_repository(bench: Bench, what: str) -> None:
    sign = bench.workspace / "ran"
    program = f"touch {sign}"
    COMMITS[what](bench, program)
    if what == "signing":
        path = bench.write("gpg", f"#!/bin/sh\n{program}\nexit 1\n")
        path.chmod(0o755)
        bench.git("config", "gpg.program", str(path))
    if what == "hooks elsewhere":
        hook("../../elsewhere/post-commit")(bench, program)
    bench.write("a.txt", "two\n")
    sign.unlink(missing_ok=True)  # by setting it up
    output = await bench.output("git_commit", message="by the tool", paths=["a.txt"])
    assert output["commit"] == bench.git("rev-parse", "main").strip()
    assert not sign.exists()
    bench.write("b.txt", "so that the index changes")
    words = () if what == "editor" else ("-m", "by a person")
    by_a_person(bench, "sh", "-c", 'git add -A; git commit --allow-empty "$@"', "commit", *words)
    assert sign.exists(), f"the {what} does not even work under plain git"


async def test_what_needs_a_filter_is_not_committed_without_it(bench: Bench) -> None:
    bench.write(".gitattributes", "*.bin filter=lfs\n")
    bench.write("x.bin", "large")
    bench.write("y.txt", "small")
    failure = await bench.failure("git_commit", message="all")
    assert "x.bin goes through the filter lfs" in str(failure)
    assert await bench.output("git_commit", message="rest", paths=["y.txt", ".gitattributes"])
    assert bench.git("status", "--porcelain") == "?? x.bin\n"


async def test_a_repository_elsewhere_is_not_reached(bench: Bench, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    bench.git("config", "core.worktree", str(other.workspace))
    bench.write("new", "x")
    entries = (await bench.output("git_status"))["entries"]
    assert [entry["path"] for entry in entries] == ["new"]  # not what lies in the other folder
    linked = tmp_path / "linked"
    other.git("worktree", "add", "-q", str(linked))
    failure = await Bench(linked).failure("git_status")
    assert "no git repository" in str(failure)
    assert other.git("-C", str(linked), "status", "--porcelain") == ""  # for a person there is one
