"""The permission broker: decides about calls, asks a person, denies when in doubt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, assert_never

import msgspec
import trio

from ...runtime.definitions import ToolFailure
from ...runtime.errors import CallboardError, ConflictError, StorageError, ValidationError
from ...runtime.kernel.mailbox import Mailbox, Reply
from ...runtime.messages import (
    AnswerApproval,
    ApprovalRequest,
    AskPerson,
    BrokerMessage,
    CheckPermissions,
    JournalMessage,
    ReloadGrants,
    RevokeGrant,
    ShowApproval,
    TakeUpQuestions,
)
from ...tools.schema.validation import without_advice
from .decisions import Decisions
from .edited_arguments import EditedArguments
from .question import OpenQuestion
from .record import ApprovalRecord, BrokerServices
from .resolution import Arrival, QuestionResolver

MAILBOX_CAPACITY = 256
"""Batches that wait for decisions: more than sessions can have at once without being queued."""

_Answer = TypeVar("_Answer")
_Message = TypeVar("_Message")


class PermissionBroker:
    """Decides about every call: by policy, then by what a person had remembered, then by asking.

    Receives: `CheckPermissions`, `AskPerson`, `AnswerApproval`, `ShowApproval`, `RevokeGrant`,
        `TakeUpQuestions`, `ReloadGrants`.
    Sends: `AppendEvents` to the journal: each question before anybody hears it, each answer before
        anything follows from it. Who answered first is decided there. `WakeSession` to the
        directory, from child tasks, when a late answer is on record.
    Owns: the questions that are open in this process, the grants that hold.
    Ends: when cancelled; open questions then wait on record.
    """

    def __init__(
        self,
        mailbox: Mailbox[BrokerMessage],
        journal: Mailbox[JournalMessage],
        services: BrokerServices,
    ) -> None:
        self._mailbox = mailbox
        self._services = services
        self._record = ApprovalRecord(journal, services)
        self._decisions = Decisions(services.policies)
        self._edits = EditedArguments(services.preparation, self._decisions)
        self._revoking = trio.Lock()
        self._resolver: QuestionResolver
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        decisions = self._decisions
        await self._load_grants()
        with self._mailbox.open(self._serve_now) as messages:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                resolver = self._resolver = QuestionResolver(
                    self._services, self._record, decisions.grants, self._edits, nursery
                )
                nursery.start_soon(resolver.take_up_deferred, name="deferred questions")
                task_status.started()
                async for message in messages:
                    match message:
                        case CheckPermissions():
                            with message.reply:
                                self._serve_now(message)
                        case AskPerson():
                            self._serve_now(message)
                        case AnswerApproval():
                            nursery.start_soon(
                                _reply, message.reply, self._answer, message, name="answer"
                            )
                        case ShowApproval():
                            nursery.start_soon(
                                _reply, message.reply, self._show, message, name="show"
                            )
                        case RevokeGrant():
                            nursery.start_soon(
                                _reply, message.reply, self._revoke, message, name="revoke"
                            )
                        case TakeUpQuestions():
                            nursery.start_soon(
                                _reply, message.reply, self._take_up, message, name="take up"
                            )
                        case ReloadGrants():
                            nursery.start_soon(
                                _reply, message.reply, self._reload, message, name="grants"
                            )
                        case _:
                            assert_never(message)

    async def _load_grants(self) -> None:
        for grant in await self._services.store.grants():
            self._decisions.grants.add(grant)

    async def _take_up(self, _: TakeUpQuestions) -> None:
        await self._load_grants()
        await self._resolver.take_up_deferred()

    async def _reload(self, _: ReloadGrants) -> None:
        """Let what other nodes gave hold here, and what they revoked end, for queued calls too."""
        grants = self._decisions.grants
        async with self._revoking:
            known = grants.all()  # what is given meanwhile is not among them, and stays
            hold = {grant.grant_id: grant for grant in await self._services.store.grants()}
            for grant in hold.values():
                grants.add(grant)
            ended = [grant for grant in known if grant.grant_id not in hold]
            for grant in ended:
                grants.remove(grant)
        for grant in ended:
            await self._record.void_answers_of(grant)

    def _serve_now(self, message: BrokerMessage) -> bool:
        """Decide about calls, or begin to ask, without waiting; return `False` for other messages.

        The questions of one answer begin in one step and in order, so that each finds its twin
        before that has its answer.
        """
        if type(message) is CheckPermissions:
            message.reply.send(self._decisions.decide(message))
        elif type(message) is AskPerson:
            name = f"question {message.question.call_id}"
            begun = self._resolver.begin(message)
            self._nursery.start_soon(self._ask, message, begun, name=name)
        else:
            return False
        return True

    async def _ask(self, message: AskPerson, begun: OpenQuestion | Arrival) -> None:
        with message.scope:
            await _reply(message.reply, partial(self._resolver.ask, begun=begun), message)

    async def _answer(self, message: AnswerApproval) -> None:
        try:
            await self._resolver.answer(message.approval_id, message.answer)
        except ToolFailure as denied:
            if message.answer.arguments is not None:
                raise  # the arguments are wrong
            raise ConflictError(
                f"{message.approval_id} can't be allowed: the policy denies the call by now "
                f"({without_advice(str(denied))}). Deny it, change its arguments, or change the policy"
            ) from None

    async def _show(self, message: ShowApproval) -> ApprovalRequest:
        question = await self._resolver.find(message.approval_id)
        await self._record.refresh(question)
        if message.arguments is not None:
            request = await self._edits.request(question, message.arguments)
        else:
            name = question.question.name
            definition = self._services.preparation.definition_at(question.place, name)
            request = msgspec.structs.replace(
                question.request(), parameters=definition and definition.parameters
            )
        served = self._services.channels.serving(question.place)
        if request.origin or served is None:
            return request
        return msgspec.structs.replace(request, origin=served.origin)

    async def _revoke(self, message: RevokeGrant) -> None:
        """End a grant at once, for queued calls too; it holds again when that can't be stored."""
        grants = self._decisions.grants
        # One by one, so that putting a grant back undoes no other revocation.
        async with self._revoking:
            grant = await self._record.grant(message.grant_id)
            held = grants.remove(grant)
            try:
                await self._record.revoke(grant, message.revoked_by)
            except (StorageError, ConflictError) as error:
                is_elsewhere = isinstance(error, ConflictError) and error.kind == "owner"
                if held and (is_elsewhere or isinstance(error, StorageError)):
                    grants.add(grant)
                raise
            grants.remove(grant)  # it may have been given just now
        await self._record.void_answers_of(grant)


async def _reply(
    reply: Reply[_Answer], work: Callable[[_Message], Awaitable[_Answer]], message: _Message
) -> None:
    """Reply with what `work` returns, or with its error."""
    with reply:
        try:
            answer = await work(message)
        except ToolFailure as failure:
            # Why a person's arguments can't be used; the model's advice is left out.
            said = f"arguments: {without_advice(str(failure))}"
            inside = failure.details.get("field")
            field = f"arguments.{inside}" if isinstance(inside, str) and inside else "arguments"
            reply.fail(ValidationError(said, field=field))
        except CallboardError as error:
            reply.fail(error)
        else:
            reply.send(answer)
