"""Which programs of a workspace a command names: too much rather than too little."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.tools.sandbox import named_programs as module
from callboard.tools.sandbox.named_programs import named_files, shown_files

NAMES = ("run.sh", "tool", "lib/deep.py", "notes.txt", "a b.sh", "data.bin")
IN_PACKAGE = ("pkg/__main__.py", "pkg/Makefile", "pkg/package.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*NAMES, *IN_PACKAGE):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"this is {name}")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "link").symlink_to("notes.txt")
    (tmp_path / "out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.sh")
    return tmp_path


def found(folder: Path, *commands: str | list[str], cwd: str = "") -> set[str]:
    return {each.path for each in named_files(str(folder), str(folder / cwd), commands)}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (["sh", "run.sh"], {"run.sh"}),
        (["sh", "notes.txt"], {"notes.txt"}),  # whatever it is called, it is run
        (["cat", "notes.txt"], set()),
        (["cat", "run.sh"], {"run.sh"}),
        (["./tool"], {"tool"}),
        (["env", "-S", "A=1 ./tool x"], {"tool"}),
        (["python3", "-W", "ignore", "data.bin"], {"data.bin"}),
        (["make", "--file=lib/deep.py"], {"lib/deep.py"}),
        (["sh", "a b.sh"], {"a b.sh"}),
        (["sh", "link"], {"link"}),
        (["sh", "out", "pipe.sh", "lib", "..", "", "\0", "x" * 5000], set()),
        ("sh 'a b.sh'", {"a b.sh"}),
        ("A=1 B=2 bash -eu notes.txt | tee x", {"notes.txt"}),
        ("true && . notes.txt", {"notes.txt"}),
        ("x=$(./tool); y=`./run.sh`", {"tool", "run.sh"}),
        ("(cd lib; python3 deep.py); python3 lib/deep.py", {"lib/deep.py"}),
        ("echo 'unclosed; sh run.sh", {"run.sh"}),
        ("cat <notes.txt >run.sh", {"run.sh"}),
        ("import lib\nexec(open('lib/deep.py').read())", {"lib/deep.py"}),
        ("#" * 20_000 + "\nsh run.sh", {"run.sh"}),
        ("ls -la; echo fine", set()),
        ("cd lib && python3 deep.py", {"lib/deep.py"}),
        (["env", "-C", "lib", "python3", "deep.py"], {"lib/deep.py"}),
        ("D=lib; python3 $D/deep.py", {"lib/deep.py"}),
        ('python3 "$PWD/lib/deep.py"; sh ${PWD}/run.sh', {"lib/deep.py", "run.sh"}),
        ("sh ./*.sh", {"run.sh", "a b.sh"}),
        ("cd lib; python3 d*.py", {"lib/deep.py"}),
        ("python3 -m lib.deep", {"lib/deep.py"}),
        ("python3 pkg; python3 -m pkg", {"pkg/__main__.py"}),
        ("make -C pkg all", {"pkg/Makefile"}),
        (["bash", "-c", "cd pkg && npm test"], {"pkg/package.json"}),
    ],
)
def test_what_a_command_names(folder: Path, command: str | list[str], names: set[str]) -> None:
    assert found(folder, command) == names


def test_paths_begin_where_the_command_does(folder: Path) -> None:
    assert found(folder, "python3 deep.py; ../tool", cwd="lib") == {"lib/deep.py", "tool"}
    assert found(folder, f"sh {folder}/run.sh ../../{folder.name}/tool") == {"run.sh"}
    assert found(folder, "python3 deep.py") == set()


def test_a_digest_is_of_the_content_and_of_a_large_file_of_its_facts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> str:
        [file] = named_files(str(folder), str(folder), ["sh run.sh"])
        return file.digest

    (before, same), path = (digest(), digest()), folder / "run.sh"
    path.write_text("other")
    other = digest()
    path.write_text("this is run.sh")
    assert (before == same, before == other, before == digest()) == (True, False, True)
    monkeypatch.setattr(module, "MAX_HASHED_BYTES", 4)
    large = digest()
    assert large == digest()
    path.write_text("this is RUN.sh")
    assert large != digest()


def test_what_is_found_and_shown_is_bounded(folder: Path) -> None:
    for number in range(100):
        (folder / f"s{number}.sh").write_text("x")
    many = " ".join(f"s{number}.sh" for number in range(100))
    assert len(found(folder, many)) == module.MAX_NAMED_FILES
    (folder / "run.sh").write_text("y" * 50_000)
    (folder / "tool").write_bytes(b"\x7fELF\0")
    shown = shown_files(named_files(str(folder), str(folder), ["./tool; sh run.sh"]))
    assert shown.splitlines()[0] == "── tool (5 bytes): no text"
    assert "── run.sh (50000 bytes) is longer; this is its beginning" in shown
    assert len(shown) < module.MAX_SHOWN_BYTES + 200
    assert found(folder / "missing", "sh run.sh") == set()


def test_a_person_is_told_what_can_not_be_read_from_a_command(folder: Path) -> None:
    for command in (
        "sh $X",
        "find . -name x -exec sh {} +",
        "sh `ls`",
        "ls | xargs sh",
        "sh */x.sh",
    ):
        assert "can't be read from" in shown_files([], [command]), command
        assert "can't be read from" in shown_files([], [["bash", "-c", command]])
    for command in ("sh run.sh", "sh $PWD/run.sh", "ls *.py", "git log --exec-path"):
        assert shown_files([], [command]) == ""
    [file] = named_files(str(folder), str(folder), ["sh run.sh"])
    assert "in their turn is not shown" in shown_files([file], ["sh run.sh"])
