"""Puts questions to the person in the editor: whether a call may run, and what a model asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from ...client.client import Client
from ...runtime.approval import ApprovalAnswer, ApprovalRequest
from ...runtime.channel import ChannelMessage, UserQuestion
from ...runtime.definitions import Tier
from ...runtime.errors import ValidationError
from ...runtime.event_types.form import filled_in
from ...runtime.event_types.people import QuestionForm
from ...runtime.handles import PersonAnswer
from ...runtime.redaction import redacting_logger
from ..show.question_text import ANSWERED_BY
from ..show.question_text import question as question_text
from ..terminal.escaping import safe_line, safe_text
from . import wire
from .calls import ShownCall, fenced, shown_call
from .connection import EditorConnection, EditorRefused
from .forms import choice_of, schema_of
from .updates import message

logger = redacting_logger(__name__)

ALLOW, ALLOW_SESSION, DENY = "allow", "allow_session", "deny"
NO_FORMS = "(Nobody was asked: this editor shows no questions. Ask in the text of the answer, and end the turn there.)"
"""The answer to a model's question where the editor has no forms."""

_PERMISSION = msgspec.json.Decoder(wire.RequestPermissionResponse)
_ELICITED: msgspec.json.Decoder[wire.CreateElicitationResponse] = msgspec.json.Decoder(
    wire.CreateElicitationResponse
)
_OPTIONS = {
    DENY: wire.PermissionOption(option_id=DENY, name="Deny", kind="reject_once"),
    ALLOW: wire.PermissionOption(option_id=ALLOW, name="Allow", kind="allow_once"),
    ALLOW_SESSION: wire.PermissionOption(
        option_id=ALLOW_SESSION, name="Allow such calls in this session", kind="allow_always"
    ),
}


class EditorChannel:
    """The person in the editor, for the questions of one session.

    Args:
        connection: The editor.
        client: The daemon, which says what is known of the session that asks.
        session_id: The session that the editor shows.
        folder: Its workspace.
        shown: Returns what the editor shows of a call.
        is_ending: Returns whether the person has cancelled what the session does.
        has_forms: Whether it can show a model's question.
        has_pages: Whether it opens a page in a browser, when the person agrees.
    """

    def __init__(
        self,
        connection: EditorConnection,
        client: Client,
        session_id: str,
        folder: Path,
        shown: Callable[[str], ShownCall | None],
        is_ending: Callable[[], bool],
        *,
        has_forms: bool,
        has_pages: bool = False,
    ) -> None:
        self._connection = connection
        self._client = client
        self._session_id = session_id
        self._folder = folder
        self._shown = shown
        self._is_ending = is_ending
        self._has_forms = has_forms
        self._has_pages = has_pages

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask whether a call may run; whatever is not a clear yes is a no."""
        options = [_OPTIONS[DENY], _OPTIONS[ALLOW]]
        if await self._may_be_remembered(request):
            options.append(_OPTIONS[ALLOW_SESSION])
        call = self._shown(request.call_id)
        if call is None or not call.has(request.arguments):  # it is asked about again, as changed
            tool, folder = request.tool, self._folder
            look = partial(shown_call, tool, request.arguments, folder, reads=folder)
            call = await trio.to_thread.run_sync(look)
        asked = wire.RequestPermissionRequest(
            session_id=self._session_id,
            tool_call=wire.ToolCallUpdate(
                tool_call_id=request.call_id,
                title=call.title,
                name=call.name,
                kind=call.kind,
                status="pending",
                content=(*call.content, _question(request)),
                locations=call.locations or None,
                raw_input=call.raw_input,
            ),
            options=tuple(options),
        )
        found = await self._connection.ask("session/request_permission", asked, _PERMISSION)
        chosen = ""
        if isinstance(found, EditorRefused):
            await self._wait_if_ending()
            reason = f"the editor could not ask: {found.message}"
        elif isinstance(found.outcome, wire.RequestPermissionOutcomeSelected):
            chosen, reason = found.outcome.option_id, ""
        else:
            await self._wait_if_ending()
            reason = "the question was closed in the editor"
        is_offered = any(chosen == option.option_id for option in options)
        lasts = (
            is_offered and chosen == ALLOW_SESSION
        )  # and still may: much may have been read meanwhile
        lasts = lasts and await self._may_be_remembered(request)
        return ApprovalAnswer(
            decision="allow" if is_offered and chosen != DENY else "deny",
            remember="session" if lasts else None,
            reason=reason,
            answered_by=ANSWERED_BY,
        )

    async def _wait_if_ending(self) -> None:
        """Give no answer to a question that the editor has closed because it cancels the prompt.

        After an answer the model might be called once more, so this waits for the end of the turn, which withdraws the question.
        """
        if self._is_ending():
            await trio.sleep_forever()

    async def _may_be_remembered(self, request: ApprovalRequest) -> bool:
        """Whether "always" is offered: editors can be set to choose it without a person."""
        if "session" not in request.scopes or request.tier is Tier.ELEVATED:
            return False
        return not (await self._client.session(request.session_id)).is_tainted

    async def ask(self, question: UserQuestion) -> PersonAnswer:
        """Ask a model's question, in a form with one field; or what the server of a tool asks."""
        if question.form is not None:
            return await self._ask_for_server(question, question.form)
        if not self._has_forms:
            return PersonAnswer(text=NO_FORMS)
        suggested = ", ".join(map(safe_line, question.options))
        field = wire.ElicitationPropertySchemaString(
            title="Answer", description=f"Suggested: {suggested}" if suggested else None
        )
        form = wire.CreateElicitationRequestForm(
            message=safe_text(question.question),
            requested_schema=wire.ElicitationSchema(
                type="object", properties={"answer": field}, required=("answer",)
            ),
            session_id=self._session_id,
            tool_call_id=question.call_id,
        )
        found = await self._connection.ask("elicitation/create", form, _ELICITED)
        if isinstance(found, wire.CreateElicitationResponseAccept):
            said = (found.content or {}).get("answer", "")
            text = said if isinstance(said, str) else str(said)
            return PersonAnswer(text=text)
        await self._wait_if_ending()
        return PersonAnswer(text="(The person closed the question without an answer.)")

    async def _ask_for_server(self, question: UserQuestion, form: QuestionForm) -> PersonAnswer:
        """Ask what the server of a tool asks; what is no clear answer declines."""
        declined = PersonAnswer(text="", option=len(question.options) - 1)
        place = {"session_id": self._session_id, "tool_call_id": question.call_id}
        said = safe_text(question.question)
        asked: wire.CreateElicitationRequest
        if form.url and self._has_pages:
            asked = wire.CreateElicitationRequestUrl(
                message=said, elicitation_id=question.question_id, url=form.url, **place
            )
        elif not self._has_forms:
            return declined
        elif form.url:
            schema = choice_of("answer", question.options)
            asked = wire.CreateElicitationRequestForm(
                message=said, requested_schema=schema, **place
            )
        else:
            schema = schema_of(form.fields)
            asked = wire.CreateElicitationRequestForm(
                message=said, requested_schema=schema, **place
            )
        found = await self._connection.ask("elicitation/create", asked, _ELICITED)
        if not isinstance(found, wire.CreateElicitationResponseAccept):
            await self._wait_if_ending()
            return declined
        content = found.content or {}
        if form.url:
            chosen = question.options[0] if self._has_pages else content.get("answer")
            return PersonAnswer(text="", option=0) if chosen == question.options[0] else declined
        try:
            filled_in(form.fields, content)
        except ValidationError as error:
            logger.warning("the editor's answer to a form is none, and so declines: %s", error)
            return declined
        return PersonAnswer(text=msgspec.json.encode(content).decode())

    async def tell(self, sent: ChannelMessage) -> None:
        """Show a message among what the agent says."""
        origin = f" ({sent.origin})" if sent.origin else ""
        update = message(f"\n\n**Message{origin}:** {safe_text(sent.text)}\n\n")
        notification = wire.SessionNotification(session_id=self._session_id, update=update)
        self._connection.notify("session/update", notification)


def _question(request: ApprovalRequest) -> wire.ToolCallContentContent:
    """Return everything that is decided about, uncut: an editor need not show a call's raw arguments."""
    how = f"With other arguments: `callboard approve {request.approval_id} --edit`"
    text = f"{fenced(question_text(request).strip())}\n\n{how}"
    return wire.ToolCallContentContent(content=wire.ContentBlockText(text=text))
