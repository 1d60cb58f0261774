"""Each query of a store, with each of its options."""

from __future__ import annotations

from typing import Any

from callboard.runtime.definitions import CallStatus, SessionKind
from callboard.runtime.identity import RequestKey
from callboard.runtime.store.feeds import Topic
from callboard.runtime.store.lists import CallFilter, SessionFilter, Visibility, WordSearch

FEW = Visibility(agents=("general",), session_ids=("s1",))
KEY = RequestKey(sender="phone", method="session/create", key="k", digest="d")

CALLS: dict[str, list[dict[str, Any]]] = {
    "events": [{"session_id": "s1"}, {"session_id": "s1", "after_seq": 1, "limit": 1}],
    "event_bytes": [{"session_id": "s1"}, {"session_id": "s1", "after_seq": 1, "limit": 1}],
    "epoch": [{}],
    "log": [{}, {"after_seq": 1, "topic": Topic.RUNTIME, "limit": 1}],
    "log_head": [{}],
    "request": [{"request": KEY}],
    "named_inputs": [
        {"senders": ["phone"], "limit": 5},
        {"senders": ["phone"], "limit": 5, "key": "k"},
    ],
    "session": [{"session_id": "s1"}],
    "sessions": [{}, {"include_deleted": True, "include_children": False, "limit": 1}],
    "children": [
        {},
        {"parent_id": "s1"},
        {"parent_id": "s1", "call_id": "c1"},
        {"parent_id": "s1", "is_detached": True},
        {"is_detached": True},
    ],
    "session_page": [
        {"wanted": SessionFilter()},
        {"wanted": SessionFilter(before=1)},
        {"wanted": SessionFilter(agent="general")},
        {"wanted": SessionFilter(workspace="/work")},
        {"wanted": SessionFilter(workspace="/work", before=1, deleted="also")},
        {"wanted": SessionFilter(words="report")},
        {"wanted": SessionFilter(deleted="only")},
        {"wanted": SessionFilter(deleted="only", before=1)},
        {"wanted": SessionFilter(deleted="also")},
        {"wanted": SessionFilter(include_children=False)},
        {"wanted": SessionFilter(kind=SessionKind.BRANCH)},
        {"wanted": SessionFilter(until_ms=1)},
        {"wanted": SessionFilter(within=FEW)},
    ],
    "session_tree": [{"session_ids": ["s1"]}],
    "expired_sessions": [{"before_ms": 1}],
    "unused_sessions": [
        {"before_ms": 1, "limit": 1},
        {"before_ms": 1, "after": (0, "s1"), "limit": 1},
    ],
    "hits": [
        {"search": WordSearch(query="a report")},
        {"search": WordSearch(query="a", within=FEW)},
        {
            "search": WordSearch(
                query="a",
                agent="general",
                kind=SessionKind.MAIN,
                workspace="/w",
                include_children=False,
            )
        },
    ],
    "shown_events": [{"session_id": "s1"}, {"session_id": "s1", "after_seq": 1, "limit": 1}],
    "shown_bytes": [{"session_id": "s1"}, {"session_id": "s1", "after_seq": 1, "limit": 1}],
    "messages": [
        {"session_id": "s1"},
        {"session_id": "s1", "after": 1, "limit": 1},
        {"session_id": "s1", "before": 9, "latest_first": True, "limit": 1},
        {"session_id": "s1", "from_message": "i"},
    ],
    "whole_messages": [{"session_id": "s1", "message_ids": ["i", "call:c1"]}],
    "message_file": [{"session_id": "s1", "message_id": "i", "number": 0}],
    "calls": [
        {},
        {"session_id": "s1"},
        {"name": "read_file"},
        {"session_id": "s1", "status": CallStatus.RUNNING, "limit": 1},
    ],
    "call_page": [
        {"wanted": CallFilter()},
        {"wanted": CallFilter(before=1)},
        {"wanted": CallFilter(session_id="s1")},
        {"wanted": CallFilter(since_ms=1, within=FEW)},
    ],
    "finished_call": [{"session_id": "s1", "call_id": "c1"}],
    "full_output": [{"session_id": "s1", "call_id": "c1"}],
    "marked_files": [{}],
    "usage": [{}, {"session_id": "s1"}, {"since_ms": 1, "after": 1, "limit": 1}],
    "spending": [{"session_id": "s1"}, {"session_id": "s1", "turn_id": "t1"}],
    "size": [{}],
    "approvals": [
        {},
        {"state": "waiting"},
        {"state": "denied"},
        {"session_id": "s1"},
        {"session_id": "s1", "state": "allowed"},
        {"approval_id": "a1", "state": "waiting"},
        {"before": "a1", "within": FEW, "limit": 1},
    ],
    "grants": [{}, {"include_ended": True, "limit": 1}, {"grant_id": "g1", "include_ended": True}],
    "turn_start": [{"session_id": "s1"}, {"session_id": "s1", "turn_id": "t"}],
    "open_turns": [{}, {"session_id": "s1"}],
    "open_questions": [{}, {"session_id": "s1"}],
    "open_inputs": [{"session_id": "s1"}],
    "waking_sessions": [{}],
    "memories": [
        {},
        {"agent": "general", "limit": 1},
        {"memory_id": "m1"},
        {"before": "m1", "within": FEW},
    ],
    "found_memories": [
        {"agent": "general", "query": "report", "limit": 1},
        {"agent": "general", "query": "report", "limit": 1, "within": FEW},
    ],
}
