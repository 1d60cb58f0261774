"""What of an answer is taken, and how much of it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.actors.permissions.asking import as_answer, bounded, checked_answer
from callboard.runtime.errors import ValidationError
from callboard.runtime.messages import ApprovalAnswer
from callboard.runtime.redaction import Secret, redactor


class Odd:
    def __repr__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("said", [Odd(), "x" * 1_000_000, b"x" * 1_000_000, ["x" * 1_000_000], {}])
def test_an_odd_answer_is_a_denial_that_shows_it_in_short(said: Any) -> None:
    answer = as_answer(said)
    assert (answer.decision, answer.answered_by) == ("deny", "callboard")
    assert "not allow or deny" in answer.reason
    assert len(answer.reason) < 200


def test_an_odd_answer_is_shown_without_secrets() -> None:
    secret = Secret("correct-horse-battery")
    redactor.add(secret)
    try:
        assert "***" in as_answer("allow correct-horse-battery").reason
        assert "horse" not in as_answer(["correct-horse-battery"]).reason
    finally:
        redactor.discard(secret)


def test_a_client_is_told_what_decisions_there_are() -> None:
    with pytest.raises(ValidationError, match="neither allow nor deny") as refused:
        checked_answer(ApprovalAnswer(decision="x" * 1_000_000))  # type: ignore[arg-type]
    assert len(str(refused.value)) < 200
    assert checked_answer(ApprovalAnswer(decision="deny")) == ApprovalAnswer(decision="deny")


def kept(answer: ApprovalAnswer, max_result_bytes: int = 65_536) -> ApprovalAnswer:
    return bounded(answer, max_result_bytes=max_result_bytes, max_arguments_bytes=100)


def test_what_is_short_is_kept_as_it_is() -> None:
    for answer in (
        ApprovalAnswer(decision="allow", arguments="not even JSON", remember="turn", reason="so"),
        ApprovalAnswer(decision="deny", arguments='{"a":2}', answered_by="me", pattern="x"),
        ApprovalAnswer(decision="deny", reason="x" * 4000),
    ):
        assert kept(answer) == answer


@pytest.mark.parametrize(
    "arguments", ["not JSON", "[1]", '"a"', '{"a":"' + "x" * 100 + '"}', '{"a":"\udc80"}', "[" * 99]
)
def test_arguments_of_a_denial_are_an_object_or_nothing(arguments: str) -> None:
    assert kept(ApprovalAnswer(decision="deny", arguments=arguments)).arguments is None


def test_texts_are_cut_and_can_be_stored() -> None:
    answer = kept(ApprovalAnswer(decision="deny", reason="\ud800" * 9000, answered_by=""))
    assert answer.reason == "�" * 3996 + " […]"
    assert answer.answered_by == "application"
    assert len(kept(ApprovalAnswer(decision="deny", reason="x" * 99), 160).reason) == 10
    assert kept(ApprovalAnswer(decision="deny", reason="x" * 99), 1).reason == ""
