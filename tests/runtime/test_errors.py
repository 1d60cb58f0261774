from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard.runtime import errors
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.errors import (
    ActorStopped,
    CallboardError,
    InternalError,
    StorageError,
    StorageFull,
    ValidationError,
    error_of,
)

LEAVES = CallboardError.__subclasses__()


def tree(kind: type[CallboardError]) -> Iterator[type[CallboardError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


def test_each_leaf_has_its_own_word() -> None:
    words = [leaf.type for leaf in LEAVES]
    assert len(set(words)) == len(words) >= 12


def test_the_tree_is_shallow_and_says_what_its_leaf_says() -> None:
    for leaf in LEAVES:
        for below in tree(leaf):
            assert below.type == leaf.type


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_word_gives_its_error_back(leaf: type[CallboardError]) -> None:
    made = error_of(leaf.type, "what happened")
    assert type(made) is leaf
    assert str(made) == "what happened"


def test_an_unknown_word_is_an_internal_error() -> None:
    assert type(error_of("what?", "x")) is InternalError


def test_what_may_be_tried_again() -> None:
    assert {leaf.type for leaf in tree(CallboardError) if leaf.retryable} == {
        "network", "timeout", "overloaded", "storage",
    }  # fmt: skip
    assert StorageFull.retryable
    assert not StorageError.retryable


def test_a_validation_error_names_the_field() -> None:
    assert ValidationError("x", field="a.b").field == "a.b"
    assert ValidationError("x").field is None


def test_an_ended_actor_is_a_fault_of_our_own() -> None:
    assert issubclass(ActorStopped, InternalError)


def test_a_tools_failure_is_typed() -> None:
    failure = ToolFailure(ErrorType.NOT_EMPTY, "x", path="a")
    assert (failure.type, failure.error_type, failure.details) == (
        "tool", ErrorType.NOT_EMPTY, {"path": "a"},
    )  # fmt: skip


def test_the_module_defines_all_leaves() -> None:
    assert all(getattr(errors, leaf.__name__) is leaf for leaf in LEAVES)


def test_a_failure_takes_the_word_of_its_type() -> None:
    assert ToolFailure("not_empty", "x").error_type is ErrorType.NOT_EMPTY


@pytest.mark.parametrize("word", ["nope", "", None, 5, ["timeout"]])
def test_a_failure_of_no_known_type_is_refused(word: Any) -> None:
    with pytest.raises(ValidationError, match=r"not an error type .*its message: lost.* timeout"):
        ToolFailure(word, "lost")
