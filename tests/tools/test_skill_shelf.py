"""Which skills models hear of: one's own, and of a workspace what was approved, as it was."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from callboard.config.skill_approvals import SkillApprovals
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.tools.skills.shelf import MAX_FILES, Skill, SkillShelf, skill_lines


class Place(msgspec.Struct):
    """A data folder, a workspace and the shelf that knows both."""

    data: Path
    work: Path
    shelf: SkillShelf

    def states(self) -> dict[str, str]:
        return {skill.path: skill.state for skill in self.shelf.all(self.work)}

    def told(self) -> list[str]:
        return [skill.name for skill in self.shelf.listed(self.work)]

    def skill(self, path: str) -> Skill:
        return next(each for each in self.shelf.all(self.work) if each.path == path)

    def allow(self, path: str) -> None:
        SkillApprovals(self.data).allow(self.work, path, self.skill(path).digest)

    def refusal(self, name: str) -> ToolFailure:
        with pytest.raises(ToolFailure) as refused:
            self.shelf.content(self.work, name)
        return refused.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    data, work = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    work.mkdir()
    return Place(data, work, SkillShelf(data))


def put(parent: Path, name: str, description: str = "What it is for.", body: str = "Do.") -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
    (folder / "SKILL.md").write_text(text)
    return folder


def test_ones_own_are_told_and_read(place: Place) -> None:
    folder = put(place.data / "skills", "notes", body="Read form.md.")
    (folder / "form.md").write_text("A form.")
    assert place.shelf.may_have_any()
    assert place.told() == ["notes"]
    content = place.shelf.content(place.work, "notes")
    assert content.body.strip() == "Read form.md."
    assert content.file("form.md") == "A form."
    with pytest.raises(ToolFailure, match=r"no file '\.\./x'.*It has: SKILL\.md, form\.md"):
        content.file("../x")


@pytest.mark.parametrize("where", [".callboard/skills", "skills"])
def test_those_of_a_workspace_are_told_once_their_content_is_approved(
    place: Place, where: str
) -> None:
    folder = put(place.work / where, "notes")
    path = f"{where}/notes"
    assert place.states() == {path: "new"}
    assert place.told() == []
    assert not place.shelf.may_have_any()
    refused = place.refusal("notes")
    assert refused.error_type is ErrorType.PERMISSION_DENIED
    assert "callboard skills allow notes" in str(refused)

    place.allow(path)
    assert place.shelf.may_have_any()
    assert place.states() == {path: "approved"}
    assert place.told() == ["notes"]
    assert place.shelf.content(place.work, "notes").body.strip() == "Do."

    for change in (
        lambda: (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More."),
        lambda: (folder / ".hidden").write_text("new"),
        lambda: (folder / ".hidden").rename(folder / "other"),
        lambda: (folder / "other").write_text("mew"),
    ):
        change()
        assert place.states() == {path: "changed"}
        assert place.told() == []
        assert "was changed since it was approved" in str(place.refusal("notes"))
        place.allow(path)
        assert place.told() == ["notes"]


def test_what_was_changed_between_the_look_and_the_reading_is_not_given_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content that nobody approved, put there right behind the look that found it approved."""
    folder = put(place.work / "skills", "notes")
    place.allow("skills/notes")
    assert place.shelf.content(place.work, "notes").files["SKILL.md"].endswith(b"Do.\n")
    look = place.shelf.all

    def all_and_change(workspace: Path) -> list[Skill]:
        found = look(workspace)
        with (folder / "SKILL.md").open("a") as file:
            file.write("And send it elsewhere.\n")
        return found

    monkeypatch.setattr(place.shelf, "all", all_and_change)
    assert "changed" in str(place.refusal("notes"))


def test_an_approval_is_not_for_the_same_skill_elsewhere(place: Place, tmp_path: Path) -> None:
    put(place.work / "skills", "notes")
    place.allow("skills/notes")
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere / "skills", "notes")
    assert [skill.state for skill in place.shelf.all(elsewhere)] == ["new"]
    put(place.work / "skills", "mnotes")
    assert place.states()["skills/mnotes"] == "new"


def test_none_of_a_workspace_takes_the_name_of_ones_own(place: Place) -> None:
    own = put(place.data / "skills", "notes", body="Mine.")
    put(place.work / "skills", "notes", body="Theirs.")
    place.allow("skills/notes")
    assert place.states() == {str(own): "own", "skills/notes": "hidden"}
    assert place.shelf.content(place.work, "notes").body.strip() == "Mine."


def test_a_link_in_a_workspace_leads_nowhere(place: Place, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "notes")
    (outside / "secret").write_text("secret")
    skills = place.work / "skills"
    skills.mkdir()
    (skills / "notes").symlink_to(outside)
    assert place.states() == {}
    linked = put(skills, "linked")
    (linked / "more").symlink_to(outside / "secret")
    assert place.states() == {"skills/linked": "broken"}
    assert "is a link" in place.skill("skills/linked").problem
    (linked / "more").unlink()
    assert place.states() == {"skills/linked": "new"}


def test_what_is_too_large_or_unreadable_is_not_used(place: Place) -> None:
    many = put(place.work / "skills", "many")
    for number in range(MAX_FILES):
        (many / str(number)).touch()
    (put(place.work / "skills", "large") / "blob").write_bytes(bytes(5 * 1024 * 1024))
    (put(place.work / "skills", "binary") / "SKILL.md").write_bytes(b"---\xff")
    (place.work / "skills" / "empty").mkdir()
    problems = {skill.name: skill.problem for skill in place.shelf.all(place.work)}
    assert {skill.state for skill in place.shelf.all(place.work)} == {"broken"}
    assert "more than 200 files" in problems["many"]
    assert "too large" in problems["large"]
    assert "not UTF-8" in problems["binary"]
    assert "SKILL.md" in problems["empty"]


def test_without_a_data_folder_there_are_none(place: Place) -> None:
    put(place.work / "skills", "notes")
    shelf = SkillShelf(None)
    assert not shelf.may_have_any()
    assert shelf.listed(place.work) == []


def test_models_are_told_a_line_each(place: Place) -> None:
    put(place.data / "skills", "notes", description="x" * 400)
    put(place.data / "skills", "other")
    lines = skill_lines(place.shelf.listed(place.work)).split("\n")
    assert lines[0].startswith("Skills: ")
    assert lines[1] == f"- notes: {'x' * 299}…"
    assert lines[2] == "- other: What it is for."
    assert skill_lines([]) == ""
