"""The front matter of a skill: what is read, and what is refused."""

from __future__ import annotations

import pytest

from callboard.tools.skills.front_matter import MAX_FRONT_CHARS, SkillFault, read_front


def text(*lines: str, body: str = "Do it.\n") -> str:
    return "\n".join(["---", *lines, "---", body])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["description: How it is done."], "How it is done."),
        (["description:   How: it is # done  "], "How: it is # done"),
        (['description: "How \\"it\\" is done"'], 'How "it" is done'),
        (["description: 'It''s done'"], "It's done"),
        (["description: >", "  How it", "  is done."], "How it is done."),
        (["description: |-", "  How it", "", "  is done."], "How it is done."),
        (["description: How it", "  is done."], "How it is done."),
        (["# a remark", "license: MIT", "description: x", "metadata:", "  a: b"], "x"),
    ],
)
def test_a_description_is_one_line_however_it_is_written(lines: list[str], said: str) -> None:
    front, body = read_front(text("name: a-skill", *lines), "a-skill")
    assert (front.name, front.description) == ("a-skill", said)
    assert body == "Do it.\n"


def test_line_ends_and_marks_of_other_systems_make_no_difference() -> None:
    front, body = read_front("\ufeff---\r\nname: a\r\ndescription: b\r\n---\r\nDo\r\nit", "a")
    assert (front.description, body) == ("b", "Do\nit")


def test_a_line_of_hyphens_in_the_text_is_text() -> None:
    assert read_front(text("name: a", "description: b", body="x\n---\ny"), "a")[1] == "x\n---\ny"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("name: a\ndescription: b\n", "does not begin"),
        ("---\nname: a\ndescription: b\n", "has no end"),
        (text("name: a", "description: b" + "x" * MAX_FRONT_CHARS), "has no end"),
        (text("description: b"), "`name` is missing"),
        (text("name: A b", "description: b"), "`name` is missing"),
        (text("name: ../a", "description: b"), "`name` is missing"),
        (text("name: other", "description: b"), "calls itself 'other'"),
        (text("name: a"), "`description` is missing"),
        (text("name: a", "description:"), "`description` is missing"),
        (text("name: a", "description: " + "x" * 1025), "over 1024"),
        (text("name: a", "description: b\u202ec"), "invisible characters"),
        (text("name: a", "description: b\x1bc"), "invisible characters"),
        (text("name: a", "description: b\U000e0172c"), "invisible characters"),
        (text("name: a", "description: b", "description: c"), "says `description` twice"),
        (text("name: a", "- description: b"), "not `key: value`"),
        (text("name: a", 'description: "b'), "without its closing quote"),
    ],
)
def test_what_is_wrong_is_said(content: str, why: str) -> None:
    with pytest.raises(SkillFault, match=why):
        read_front(content, "a")
