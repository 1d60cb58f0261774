"""The handle through which a call asks people questions and sends them messages."""

from __future__ import annotations

from ...runtime.channel import ChannelMessage
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import CallboardError
from ...runtime.event_types.people import QuestionForm
from ...runtime.events import MessageSent
from ...runtime.handles import PersonAnswer
from ...runtime.history import Call
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import AppendEvents, CallPlace, JournalMessage
from ...runtime.redaction import redacting_logger
from .lineage import Channels, Served
from .user_questions import UserQuestions, awaited

logger = redacting_logger(__name__)


class Speech:
    """Makes the handles of calls."""

    def __init__(
        self, channels: Channels, questions: UserQuestions, journal: Mailbox[JournalMessage]
    ) -> None:
        self.channels = channels
        self.questions = questions
        self.journal = journal

    def handle(self, place: CallPlace, call: Call) -> OpenChannel | None:
        """Return the handle for a place; `None` where there are no people."""
        reachable = self.channels.reachable(place)
        return OpenChannel(self, place, call, reachable) if reachable else None


class OpenChannel:
    """A `ChannelHandle`: the channels that one call can reach, the nearest first."""

    def __init__(
        self, speech: Speech, place: CallPlace, call: Call, reachable: tuple[Served, ...]
    ) -> None:
        self._speech = speech
        self._place = place
        self._call = call
        self._reachable = reachable

    async def ask(
        self,
        question: str,
        options: tuple[str, ...] = (),
        *,
        form: QuestionForm | None = None,
        is_one_of_many: bool = False,
    ) -> PersonAnswer:
        """Wait for a person's answer; raise `ToolFailure` when nobody answers in time."""
        return await self._speech.questions.ask(
            self._place,
            self._call,
            self._reachable[0],
            question,
            options,
            form,
            is_one_of_many=is_one_of_many,
        )

    async def tell(self, text: str, channel: str | None = None) -> str:
        """Deliver a message, put it on record, and return the name of the channel.

        Raises:
            ToolFailure: No channel of that name can be reached, or delivery failed.
        """
        served = self._find(channel)
        message = ChannelMessage(
            session_id=served.session_id,
            from_session=self._place.session_id,
            call_id=self._call.call_id,
            text=text,
            origin=served.origin,
        )
        await _deliver(served, message)
        sent = MessageSent(
            call_id=self._call.call_id,
            text=text,
            channel=served.channel.name,
            child_id=self._place.session_id if served.asked_in else "",
        )
        append = AppendEvents(session_id=served.session_id, events=(sent,))
        try:
            await self._speech.journal.ask(append)
        except CallboardError as error:  # they have it: an error would make the model say it again
            logger.warning("a message to %s is not on record: %s", served.channel.name, error)
        return served.channel.name

    def _find(self, name: str | None) -> Served:
        if name is None:
            return self._reachable[0]
        for served in self._reachable:
            if served.channel.name == name:
                return served
        known = ", ".join(served.channel.name for served in self._reachable)
        raise ToolFailure(
            ErrorType.VALIDATION_ERROR,
            f"channel: {name[:100]!r} can't be reached from here. There are: {known}.",
            field="channel",
        )


async def _deliver(served: Served, message: ChannelMessage) -> None:
    channel = served.channel
    try:
        if not channel.is_connected:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"Not delivered: nobody is connected to the channel {channel.name!r}.",
            )
        await awaited(channel.tell(message))
    except ToolFailure:
        raise
    except BaseException as crash:
        raise_stop(crash)
        logger.exception("the channel %s failed to deliver a message", channel.name)
        raise ToolFailure(  # noqa: ASYNC104
            ErrorType.EXECUTION_ERROR,
            f"The channel {channel.name!r} failed: whether the message was shown is not known.",
        ) from crash
