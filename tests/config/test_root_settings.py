"""Named roots in callboard.toml and on the command line: how they are written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import callboard
from callboard.cli.daemon.roots import read_roots
from callboard.cli.daemon.serve import ServeOptions, rooted, served
from callboard.config.files import load_settings
from callboard.config.sections import RootSettings
from callboard.runtime.errors import ValidationError


def test_a_root_is_a_folder_or_a_table(tmp_path: Path) -> None:
    file = tmp_path / "callboard.toml"
    file.write_text(
        '[roots]\nprojects = "/srv/projects"\n[roots.docs]\npath = "/srv/docs"\nshared = true\n'
    )
    assert load_settings(file).named_roots == {
        "projects": RootSettings(path="/srv/projects"),
        "docs": RootSettings(path="/srv/docs", shared=True),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[roots]\nProjects = "/srv"', r"line 1: roots: 'Projects' is no name of a root"),
        ('[roots]\n"a:b" = "/srv"', "is no name of a root"),
        ('[roots]\n"@a" = "/srv"', "is no name of a root"),
        ('[roots]\n"" = "/srv"', "is no name of a root"),
        (f'[roots]\n{"a" * 41} = "/srv"', "at most 40"),
        ('[roots]\na = "srv"', "line 2: roots.a.path: 'srv' is not an absolute path"),
        ('[roots]\na = "/"', "not an absolute path below /"),
        (f'[roots]\na = "/{"b" * 5000}"', "at most 4095 bytes"),
        ('[roots]\na = "/srv"\nb = "/srv/x"', "one lies in the other"),
        ('[roots]\na = "/srv/x/../y"\nb = "/srv/y"', "the same folder"),
        ("[roots.a]\nshared = true", "roots.a.path: it is required"),
        ('[roots.a]\npath = "/srv"\nshare = true', "did you mean 'shared'"),
        ("roots = 3", "expected a table"),
        ("[roots]\na = 3", "expected a folder"),
        ("[roots]\n" + "\n".join(f'r{n} = "/srv/{n}"' for n in range(65)), "at most 64"),
    ],
)
def test_what_is_no_root_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "callboard.toml"
    file.write_text(text)
    with pytest.raises(ValidationError, match=problem):
        load_settings(file)


def test_a_program_gives_roots_by_the_same_rules() -> None:
    settings = callboard.Settings(roots={"projects": "/srv/projects"})
    assert settings.named_roots["projects"].path == "/srv/projects"
    with pytest.raises(ValueError, match="one lies in the other"):
        callboard.Settings(roots={"a": "/srv", "b": RootSettings(path="/srv/b")})


def test_a_root_of_the_command_line_has_a_name_or_none(tmp_path: Path) -> None:
    folders, named = read_roots([tmp_path, Path("/srv/odd=name"), Path(f"projects={tmp_path}")])
    assert folders == (str(tmp_path), "/srv/odd=name")
    assert named == {"projects": str(tmp_path)}


def test_what_the_command_line_names_wins_and_may_be_worked_in(tmp_path: Path) -> None:
    project = tmp_path / "projects"
    project.mkdir()
    found = callboard.Settings(roots={"projects": "/srv/projects", "docs": str(project)})
    with pytest.raises(ValidationError, match="one lies in the other"):
        rooted(found, ServeOptions(roots=(Path(f"projects={project}"),)))
    found = callboard.Settings(roots={"projects": "/srv/projects"})
    options = ServeOptions(roots=(Path(f"projects={project}"),))
    settings = rooted(found, options)
    assert settings.named_roots == {"projects": RootSettings(path=str(project))}
    assert served(settings, options, tmp_path / "data").roots == ()
    with pytest.raises(ValidationError, match="/srv/projects can't be a root for sessions"):
        served(found, ServeOptions(), tmp_path / "data")


@pytest.mark.parametrize(
    "word", ["Projects=/srv", "a b=/srv", "=/srv", "projects=", "@a=/srv", "a:b=/srv"]
)
def test_a_bad_name_on_the_command_line_is_refused(word: str) -> None:
    with pytest.raises(ValidationError, match="--root"):
        read_roots([Path(word)])


def test_a_name_stands_once(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="two roots named projects"):
        read_roots([Path("projects=/srv/a"), Path("projects=/srv/b")])
