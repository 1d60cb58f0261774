"""What is said to be wrong with a cluster, given its rows."""

from __future__ import annotations

import msgspec
import pytest

from callboard.runtime.cluster.diagnosis import LEASE_MS, node_rows, problems_of, waiting_of
from callboard.runtime.cluster.nodes import Node

WELL = Node(
    node_id="a",
    term=2,
    state="live",
    url="http://a",
    version="1.0",
    capacity=1,
    roots=(),
    started_at_ms=0,
    lease_until_ms=0,
    changed=1,
)
OTHER = msgspec.structs.replace(WELL, node_id="b", url="http://b")
LEFT = LEASE_MS - 200


def test_a_cluster_that_is_well_has_no_problem() -> None:
    ended = msgspec.structs.replace(OTHER, node_id="c", state="ended", version="0.9")
    rows = node_rows([(WELL, LEFT), (OTHER, LEFT), (ended, -5000)], {"a": 3})
    assert problems_of(rows) == ()
    assert [(row.sessions, row.lag_ms) for row in rows] == [(3, 200), (None, 200), (None, None)]


def test_nodes_that_nobody_knows_the_leases_of_have_no_problem_with_them() -> None:
    assert problems_of(node_rows([(WELL, None)], {})) == ()


@pytest.mark.parametrize(
    ("node", "left_ms", "words"),
    [
        (OTHER, -500, "node b has not renewed its lease for 2.0 s"),
        (msgspec.structs.replace(OTHER, state="fenced"), -9000, "node b was fenced and has not"),
        (msgspec.structs.replace(OTHER, url="http://a"), LEFT, "nodes a and b say that they are"),
        (msgspec.structs.replace(OTHER, version="1.1"), LEFT, "(a: 1.0; b: 1.1): finish"),
    ],
)
def test_each_problem_is_said(node: Node, left_ms: int, words: str) -> None:
    (said,) = problems_of(node_rows([(WELL, LEFT), (node, left_ms)], {}))
    assert words in said


def test_sessions_that_wait_for_a_node_are_said_with_what_to_do() -> None:
    has = msgspec.structs.replace(WELL, roots=("projects",))
    ending = msgspec.structs.replace(OTHER, roots=("docs",), state="draining")
    counts = {"projects": 3, "docs": 1, "@a": 2, "@c": 4}
    seen = [(has, LEFT), (ending, LEFT)]
    waiting = waiting_of(seen, counts)
    assert waiting == {"docs": 1, "@c": 4}
    node, root = problems_of(node_rows(seen, {}), waiting)
    assert "4 sessions wait for node c (waiting_for_node)" in node
    assert "1 session waits for a node with the root docs (waiting_for_node)" in root
    assert "--root docs=FOLDER" in root
