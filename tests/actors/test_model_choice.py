from __future__ import annotations

from collections.abc import Callable

from callboard.actors.model.choice import ModelChoice, ProviderHealth
from callboard.providers.provider import ModelTarget
from callboard.runtime.errors import AuthError
from callboard.runtime.stream import StreamError

KEY = StreamError(error_type="auth", message="The key is wrong.")
FIRST = ModelTarget(provider="a", model="m")


def finder(name: str) -> Callable[[], ModelTarget]:
    provider, _, model = name.partition("/")
    return lambda: ModelTarget(provider=provider, model=model)


def no_key() -> ModelTarget:
    raise AuthError("c needs a key.")


def choice_of(*names: str, aside: str = "") -> ModelChoice:
    health = ProviderHealth()
    for provider in aside:
        health.failed(provider, KEY)
    finders = [no_key if name == "c/no-key" else finder(name) for name in names]
    return ModelChoice(FIRST, finders, health)


def all_of(choice: ModelChoice) -> list[str]:
    """The models in the order in which they are taken."""
    names = [f"{choice.target.provider}/{choice.target.model}"]
    while choice.take_next():
        names.append(f"{choice.target.provider}/{choice.target.model}")
    return names


async def test_each_is_taken_once_in_its_order() -> None:
    assert all_of(choice_of()) == ["a/m"]
    assert all_of(choice_of("b/1", "c/2")) == ["a/m", "b/1", "c/2"]
    assert all_of(choice_of("a/m", "b/1", "b/1", "a/n")) == ["a/m", "b/1", "a/n"]


async def test_one_that_can_not_be_asked_is_left_out_and_told() -> None:
    choice = choice_of("c/no-key", "b/1")
    assert all_of(choice) == ["a/m", "b/1"]
    assert choice.unusable == ["c needs a key."]


async def test_one_whose_provider_is_set_aside_waits_for_the_end() -> None:
    assert all_of(choice_of("b/1", "c/2", "b/3", "d/4", aside="b")) == [
        "a/m", "c/2", "d/4", "b/1", "b/3",
    ]  # fmt: skip


async def test_another_one_is_taken_first_when_the_first_is_set_aside() -> None:
    choice = choice_of("b/1", "c/2", aside="ab")
    assert choice.pass_over()
    assert all_of(choice) == ["c/2", "a/m", "b/1"]


async def test_who_has_no_other_model_asks_the_one_that_is_set_aside() -> None:
    for names in ((), ("b/1",), ("c/no-key",)):
        choice = choice_of(*names, aside="ab")
        assert not choice.pass_over()
        assert all_of(choice) == ["a/m", *(n for n in names if n == "b/1")]


async def test_one_that_works_is_not_passed_over() -> None:
    choice = choice_of("b/1")
    assert not choice.pass_over()
    assert all_of(choice) == ["a/m", "b/1"]
