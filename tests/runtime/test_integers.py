"""No number that comes from outside is larger than what the store takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from callboard.runtime.errors import ValidationError
from callboard.runtime.events import DurableEvent, SessionCreated, Stored, TurnEnded
from callboard.runtime.store.codec import encode_event
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from support.both_stores import KINDS, opened_store


def integers(kind: inspect.Type, path: str) -> Iterator[tuple[str, inspect.IntType]]:
    match kind:
        case inspect.IntType():
            yield path, kind
        case inspect.StructType():
            for field in kind.fields:
                yield from integers(field.type, f"{path}.{field.name}")
        case inspect.UnionType():
            for each in kind.types:
                yield from integers(each, path)
        case inspect.VarTupleType() | inspect.ListType():
            yield from integers(kind.item_type, path)
        case _:
            return


def test_each_number_of_an_event_has_bounds() -> None:
    kinds = inspect.type_info(Stored), inspect.type_info(DurableEvent)
    found = [each for kind in kinds for each in integers(kind, type(kind).__name__)]
    assert len(found) > 20
    for path, kind in found:
        assert kind.ge is not None, path
        assert kind.le is not None, path
        assert -(2**63) <= kind.ge <= kind.le < 2**63, path


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200])
def test_an_event_with_a_larger_one_is_neither_kept_nor_read(number: int) -> None:
    right = TurnEnded(turn_id="t", outcome="answered", duration_ms=2**63 - 1)
    _, data = encode_event(right)
    with pytest.raises(ValidationError, match="duration_ms"):
        encode_event(msgspec.structs.replace(right, duration_ms=number))
    broken = data.replace(str(2**63 - 1).encode(), str(number).encode())
    assert broken != data
    with pytest.raises(msgspec.ValidationError, match="duration_ms"):
        msgspec.json.decode(broken, type=DurableEvent)


async def test_a_number_that_no_column_takes_is_refused_and_the_store_goes_on(
    tmp_path: Path,
) -> None:
    times = [2**63, 1, 1]
    store = await open_disk_store(tmp_path / "data", now_ms=lambda: times.pop(0))
    begun = SessionCreated(agent="general", workspace="/work")
    with pytest.raises(ValidationError, match="64 bits"):
        await store.commit([Append("s1", (begun,))])
    assert await store.session("s1") is None
    assert [len(each) for each in await store.commit([Append("s1", (begun,))])] == [1]  # type: ignore[arg-type]
    await store.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_looked_for_behind_such_a_number(tmp_path: Path, kind: str) -> None:
    async with opened_store(kind, tmp_path / "data") as store:
        for number in (2**63, 2**200):
            with pytest.raises(ValidationError, match="64 bits"):
                await store.messages("s1", after=number)
            with pytest.raises(ValidationError, match="64 bits"):
                await store.events("s1", limit=number)
        assert await store.events("s1", after_seq=2**63 - 1) == []
