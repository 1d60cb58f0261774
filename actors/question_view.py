"""Questions as they are put to a person by now, with what other arguments would make of them."""

from __future__ import annotations

import msgspec

from ..runtime.definitions import ToolFailure
from ..runtime.errors import CallboardError
from ..runtime.messages import ApprovalRequest, ShowApproval
from .approval_record import ApprovalRecord
from .changed_arguments import ChangedArguments, told_to_person
from .open_question import OpenQuestion
from .people import People


class QuestionView:
    """Shows questions; it answers none, and stores nothing.

    Args:
        record: Where those are that are not open here.
        people: Who is asked, which says where a question comes from.
        changes: Judges other arguments.
    """

    def __init__(self, record: ApprovalRecord, people: People, changes: ChangedArguments) -> None:
        self._record = record
        self._people = people
        self._changes = changes

    async def show(self, message: ShowApproval, question: OpenQuestion | None) -> None:
        """Replies; `question` is the one that is meant, if it is open here."""
        with message.reply:
            try:
                if question is None or question.outcome.is_done:
                    question = await self._record.question(message.approval_id)
                await self._record.refresh(question)
                message.reply.send(await self._request(question, message.arguments))
            except ToolFailure as failure:
                message.reply.fail(told_to_person(failure))
            except CallboardError as error:
                message.reply.fail(error)

    async def _request(self, question: OpenQuestion, arguments: str | None) -> ApprovalRequest:
        request = question.request()
        if arguments is not None:
            request = await self._changes.request(question, arguments)
        served = self._people.serving(question.place)
        if request.origin or served is None:
            return request
        return msgspec.structs.replace(request, origin=served.origin)
