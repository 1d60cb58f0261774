"""Clauses that ask for the time: which places they name, and how the time is to be written."""

from __future__ import annotations

from collections.abc import Sequence

from .draft import Draft
from .language import Kind, Token, words
from .operands import places_in, unknown_place
from .steps import Clock, Content, ResultOf

MAX_STRAY_WORDS = 2
"""A question about the time holds hardly a word that has nothing to do with it."""

_TIME = words(
    "time times clock clocks o'clock date dates datetime timestamp weekday hour day time's date's"
)
_DAY = words("date day weekday dates")
_READABLE = words("human readable human-readable nicely nice friendly words long")
_ISO = words("iso iso8601 iso-8601 machine")
_KNOWN = (
    _TIME
    | _READABLE
    | _ISO
    | words(
        "what what's whats which is it it's its the a an in at for of to on by from over as and or "
        "also plus right now current currently local exact precise present actual moment today "
        "today's tonight please me us you we i my our your tell give show know get check find say "
        "look up out read see print display zone zones timezone time-zone here there week be been "
        "like this that these those late early format style city cities place places town country "
        "both are do does happen have any idea how about with just so then there's would could "
        "can if whether, whether computer system machine everywhere each every all following "
        "number list report value string using use compare between different vs versus will "
        "need want i'd again quickly exactly actually anyway thanks thank hi hello hey guys "
        "people folks colleagues friends they them their his her who live over utc"
    )
)


def asks_for_time(verb: str, body: Sequence[Token]) -> bool:
    """Whether a clause asks for the time or the date somewhere, and for nothing else."""
    spoken = [token.word for token in body]
    timely = any(word in _TIME for word in spoken) or verb == "how late"
    late = verb == "is it" and ("late" in spoken or "early" in spoken)
    today = verb in {"what's", "what is"} and spoken[:1] == ["today"]
    if not (timely or late or today):
        return False
    _, covered = places_in(body)
    stray = [
        token
        for index, token in enumerate(body)
        if index not in covered and token.word not in _KNOWN and token.kind is not Kind.COMMA
    ]
    named = unknown_place(body, covered, _KNOWN)
    strange = len(named.split()) if named else 0
    return len(stray) - strange <= (MAX_STRAY_WORDS if covered or named else 0) and all(
        token.word for token in stray
    )


def names_only_places(body: Sequence[Token]) -> bool:
    """Whether a clause is nothing but places: `and in Paris?`."""
    _, covered = places_in(body)
    fill = words("in at for and of to what about how it is the now time there or also then")
    return bool(covered) and all(
        index in covered or token.word in fill or token.kind is Kind.COMMA
        for index, token in enumerate(body)
    )


def read_clock(draft: Draft, body: Sequence[Token]) -> Content:
    """Plans the calls for the places of a clause; their results are its value."""
    places, covered = places_in(body)
    spoken = {token.word for token in body}
    human = bool(spoken & _READABLE) or (bool(spoken & _DAY) and not spoken & _ISO)
    strange = unknown_place(body, covered, _KNOWN)
    if strange is not None:
        draft.problem(
            f"I do not know where {strange} is: name a larger city near it, or its time zone, "
            "such as Europe/Oslo."
        )
        if not places:
            return ()
    intents = [Clock(place.zone, place.name, human) for place in places] or [Clock(None, "", human)]
    pieces = tuple(ResultOf(draft.add(intent), intent.place) for intent in intents)
    draft.found(pieces)
    return pieces
