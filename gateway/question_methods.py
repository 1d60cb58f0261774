"""`question/…`: what models ask people."""

from __future__ import annotations

from ..embedded import host_of
from ..runtime.channel import UserQuestion
from ..runtime.errors import NotFoundError
from ..runtime.handles import PersonAnswer
from ..runtime.wire.approvals import AnswerQuestion
from ..runtime.wire.questions import ListQuestions, Questions
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable, Nothing

methods = MethodTable()


@methods.add("question/list", Role.OBSERVER)
async def list_questions(caller: Caller, params: ListQuestions) -> Questions:
    """The questions of models that wait for an answer, the oldest first."""
    return Questions(
        [
            each
            for each in host_of(caller.runtime).questions.waiting()
            if params.session_id in {None, each.session_id, each.asked_in}
            and await _is_seen(caller, each)
        ]
    )


@methods.add("question/answer", Role.OPERATOR)
async def answer_question(caller: Caller, params: AnswerQuestion) -> Nothing:
    """Answers a question of a model; on record when this answers."""
    if caller.is_limited and not await _sees_question(caller, params.question_id):
        raise NotFoundError(f"no question {params.question_id} is open")
    answer = PersonAnswer(text=params.text, option=params.option, answered_by=caller.name)
    await caller.runtime.answer_question(params.question_id, answer)
    return Nothing()


async def _sees_question(caller: Caller, question_id: str) -> bool:
    for each in host_of(caller.runtime).questions.waiting():
        if each.question_id == question_id:
            return await _is_seen(caller, each)
    return False


async def _is_seen(caller: Caller, question: UserQuestion) -> bool:
    session = await caller.runtime.store.session(question.session_id)
    return session is not None and caller.sees(session)
