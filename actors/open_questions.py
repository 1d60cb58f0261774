"""The questions that are open in this process, by id: of each there is one that is listened to."""

from __future__ import annotations

from collections.abc import Iterator

from .open_question import OpenQuestion


class OpenQuestions:
    """Who waits for which answer; an answer by an id is told to whoever stands here under it."""

    def __init__(self) -> None:
        self._by_id: dict[str, OpenQuestion] = {}

    def __iter__(self) -> Iterator[OpenQuestion]:
        return iter(tuple(self._by_id.values()))

    def __contains__(self, approval_id: str) -> bool:
        return approval_id in self._by_id

    def get(self, approval_id: str) -> OpenQuestion | None:
        """The question that is listened to under this id."""
        return self._by_id.get(approval_id)

    def live(self, question: OpenQuestion) -> OpenQuestion:
        """The one that is listened to under its id; itself when nobody listens."""
        return self._by_id.get(question.approval_id, question)

    def add(self, question: OpenQuestion) -> None:
        """From here on it is listened to."""
        self._by_id[question.approval_id] = question

    def drop(self, question: OpenQuestion) -> None:
        """Nobody listens to it any more."""
        if self._by_id.get(question.approval_id) is question:
            del self._by_id[question.approval_id]

    def deferred_of(self, session_id: str) -> int:
        """How many of a session its turns don't wait for."""
        return sum(q.is_deferred and q.place.session_id == session_id for q in self)

    def twin(self, question: OpenQuestion) -> OpenQuestion | None:
        """One of the same answer that asks the same and was there before, if there is one.

        One that ended without an answer is none: there is nothing to share.
        """
        for other in self:
            if other is question:
                break
            is_over = other.outcome.is_done and other.shared is None
            if not is_over and _asks(other) == _asks(question):
                return other
        return None

    def followers(self, question: OpenQuestion) -> list[OpenQuestion]:
        """Those that have this one's answer, and theirs, as far as they wait for it."""
        found: dict[str, OpenQuestion] = {}
        leaders = [question, self.live(question)]
        while leaders:
            for each in leaders.pop().followers:
                if each.approval_id not in found:
                    found[each.approval_id] = self.live(each)
                    leaders.append(found[each.approval_id])
        return [each for each in found.values() if not each.outcome.is_done]


def _asks(question: OpenQuestion) -> tuple[str, str, bool]:
    return question.digest, question.place.turn_id, question.is_deferred
