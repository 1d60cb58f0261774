"""What a tool's own functions may say of a call: taken in either spelling, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.runtime.definitions import Effect, Resource, Tier
from callboard.runtime.errors import ValidationError
from callboard.tools.tool import FunctionTool, keys_of, tool


def made(**options: Any) -> FunctionTool:
    @tool(**options)
    def touch(path: str) -> None: ...

    return touch


A = made().decode('{"path": "a/b"}')


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        (["a/b"], (Resource("a/b", write=True),)),
        ([""], (Resource(""),)),
        ([Resource("a", write=False), "b"], (Resource("a", write=False), Resource("b"))),
        (iter(("x", "y")), (Resource("x"), Resource("y"))),
        ({"..a", "...", "a b"}, tuple(map(Resource, {"..a", "...", "a b"}))),
        ([], ()),
    ],
)
def test_keys_are_texts_or_resources(said: Any, keys: tuple[Resource, ...]) -> None:
    assert made(resources=lambda _: said).resources(A) == keys
    assert keys_of(keys) == keys


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("a/b", r"resources gave 'a/b', and not a list of keys"),
        (Resource("a"), "and not a list of keys"),
        (b"ab", "and not a list of keys"),
        (None, "resources gave None, and not a list of keys"),
        ([5], r"resources gave the key 5, which is neither"),
        ([None], "neither a text"),
        (["/a"], r"'/a' can't be a key of parallel calls: write it like `a/b`"),
        (["a/"], "can't be a key"),
        (["a//b"], "can't be a key"),
        (["."], "can't be a key"),
        (["./a"], "can't be a key"),
        (["a/../b"], "can't be a key"),
        (["ok", ".."], "can't be a key"),
    ],
)
def test_what_is_no_list_of_keys_is_refused(said: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        made(resources=lambda _: said).resources(A)


@pytest.mark.parametrize("fields", [{"path": 5}, {"path": None}, {"path": "a", "write": "no"}])
def test_a_resource_is_a_path_and_a_yes_or_no(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="path must be a text, and write true or false"):
        Resource(**fields)


@pytest.mark.parametrize(
    ("said", "tier"),
    [
        ("elevated", Tier.ELEVATED),
        (Tier.ELEVATED, Tier.ELEVATED),
        ("read_only", Tier.WORKSPACE),  # never below the definition's
    ],
)
def test_a_tier_is_said_in_either_spelling(said: Any, tier: Tier) -> None:
    assert made(tier="workspace", raise_tier=lambda _: said).tier(A) is tier


def test_an_effect_is_said_in_either_spelling() -> None:
    assert made(effect=lambda _: "read").effect(A) is Effect.READ
    assert made(effect=lambda _: Effect.READ).effect(A) is Effect.READ


@pytest.mark.parametrize("said", ["harmless", None, 5, []])
def test_a_word_that_nobody_knows_is_refused(said: Any) -> None:
    with pytest.raises(ValidationError, match=r"raise_tier gave .*none of read_only, workspace"):
        made(raise_tier=lambda _: said).tier(A)
    with pytest.raises(ValidationError, match=r"effect gave .*none of read, idempotent, once"):
        made(effect=lambda _: said).effect(A)


async def judge(*_: Any) -> str:
    return "read"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resources": "a/b"}, r"tool touch: resources='a/b' is not a function"),
        ({"resources": ["a/b"]}, "is not a function"),
        ({"raise_tier": "elevated"}, r"tool touch: raise_tier='elevated' is not a function"),
        ({"resources": judge}, "resources=.* is asynchronous"),
        ({"raise_tier": judge}, "raise_tier=.* is asynchronous"),
        ({"effect": judge}, "effect=.* is asynchronous"),
        ({"approval": judge}, "approval=.* is asynchronous"),
        ({"approval": ["always"]}, "neither 'never' nor 'always' nor a function"),
        ({"effect": 5}, "tool touch: 5 is not a valid Effect"),
        ({"needs": None}, "tool touch: "),
        ({"name": 5}, "can't be a tool's name"),
    ],
)
def test_what_can_be_no_rule_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        made(**options)
