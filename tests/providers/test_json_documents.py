"""Documents in a row or in one list, however their bytes arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.gemini import decoder as json_documents
from callboard.providers.gemini.decoder import JsonDocuments

VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.sampled_from(['"', "\\", '\\"', "{[", "}]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=4)


def cut(data: bytes, size: int) -> list[bytes]:
    documents = JsonDocuments()
    return [d for at in range(0, len(data), size) for d in documents.feed(data[at : at + size])]


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans(), st.integers(1, 20), st.booleans())
def test_objects_come_out_as_they_are(
    objects: list[dict[str, Any]], indent: int | None, is_ascii: bool, size: int, is_list: bool
) -> None:
    if is_list:
        data = json.dumps(objects, indent=indent, ensure_ascii=is_ascii)
    else:
        data = "\n".join(json.dumps(o, indent=indent, ensure_ascii=is_ascii) for o in objects)
    assert [json.loads(d) for d in cut(data.encode(), size)] == objects


@given(st.binary(), st.integers(1, 5))
def test_any_bytes_give_the_same_however_they_arrive(data: bytes, size: int) -> None:
    assert cut(data, size) == cut(data, len(data) + 1)


def test_depth_costs_nothing_and_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert cut(deep, 4096) == [deep]
    monkeypatch.setattr(json_documents, "MAX_DOCUMENT_BYTES", 1000)
    documents = JsonDocuments()
    assert documents.feed(b"[{" + b" " * 900) == []
    assert not documents.overflowed
    assert documents.feed(b" " * 200) == []
    assert documents.overflowed
    assert documents.feed(b"}{}") == []
