"""Tickets: how a node proves to another which one it is."""

from __future__ import annotations

import base64

import pytest

from callboard.config.sections import MAX_NODE_CHARS
from callboard.runtime.cluster.nodes import Term
from callboard.runtime.cluster.tickets import MAX_TICKET_CHARS, Tickets
from callboard.runtime.redaction import Secret

A, B = Term("a", 3), Term("b", 7)
KEY = Secret("the key of a")


def test_a_ticket_is_accepted_once_and_answered_with_a_proof() -> None:
    a, b = Tickets(), Tickets()
    ticket = a.new(A, B, KEY)
    assert b.sender(ticket.reveal()) == A
    proof = b.accept(ticket.reveal(), B, KEY)
    assert proof is not None
    assert a.is_proof(ticket, proof, KEY)
    assert not a.is_proof(ticket, proof[:-1] + "x", KEY)
    assert not a.is_proof(ticket, "", KEY)
    assert not a.is_proof(a.new(A, B, KEY), proof, KEY)  # it is for that ticket alone
    assert b.accept(ticket.reveal(), B, KEY) is None
    assert b.accept(a.new(A, B, KEY).reveal(), B, KEY) is not None


@pytest.mark.parametrize(
    ("at", "key"),
    [
        (Term("c", 7), KEY),
        (Term("b", 8), KEY),
        (B, Secret("another key")),
    ],
)
def test_a_ticket_is_good_for_one_node_one_life_and_one_key(at: Term, key: Secret) -> None:
    a, b = Tickets(), Tickets()
    ticket = a.new(A, B, KEY).reveal()
    assert b.accept(ticket, at, key) is None
    assert b.accept(ticket, B, KEY) is not None


def test_a_ticket_that_was_made_before_one_that_was_accepted_is_void() -> None:
    a, b = Tickets(), Tickets()
    first, second = a.new(A, B, KEY).reveal(), a.new(A, B, KEY).reveal()
    assert b.accept(second, B, KEY) is not None
    assert b.accept(first, B, KEY) is None
    next_life = Tickets().new(Term("a", 4), B, KEY).reveal()  # counts anew
    assert b.accept(next_life, B, KEY) is not None
    assert b.accept(a.new(A, B, KEY).reveal(), B, KEY) is None


def test_a_ticket_that_was_changed_is_refused() -> None:
    ticket = Tickets().new(A, B, KEY).reveal()
    data = base64.urlsafe_b64decode(ticket)
    changed = data.replace(b'"a",3', b'"z",3')
    assert changed != data
    for each in (base64.urlsafe_b64encode(changed).decode(), ticket[:-8], "", "é", "x" * 1000):
        assert Tickets().accept(each, B, KEY) is None
    assert Tickets().sender("cb_a-token-of-a-client") is None
    assert Tickets().accept(ticket, B, KEY) is not None


def test_a_ticket_of_nodes_with_the_longest_names_is_read() -> None:
    longest = Term("n" * MAX_NODE_CHARS, 2**53), Term("m" * MAX_NODE_CHARS, 2**53)
    tickets = Tickets()
    tickets._made = 2**53
    ticket = tickets.new(*longest, KEY).reveal()
    assert len(ticket) <= MAX_TICKET_CHARS
    assert Tickets().accept(ticket, longest[1], KEY) is not None


def test_no_ticket_shows_the_key() -> None:
    ticket = Tickets().new(A, B, KEY)
    assert KEY.reveal().encode() not in base64.urlsafe_b64decode(ticket.reveal())
    assert repr(ticket) == "***"
