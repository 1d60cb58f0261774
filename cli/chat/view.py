"""Shows a session in a chat: a fold of its events, on record and live, with no text twice.

events ──► transcript ──► rows above the input
       └─► what is under way ──► the lines that stand above the input meanwhile
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...client.subscriptions import RemoteEvent
from ...runtime.definitions import InputMode, InputSource
from ...runtime.event_types.plan import PlanItem
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProgress,
    CallProposed,
    CallStarted,
    ChildCall,
    Event,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    MessageDiscarded,
    MessageSent,
    PlanSet,
    QuestionAnswered,
    QuestionAsked,
    Stored,
    TitleSet,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from ...runtime.history import Refusal, Text, Thinking
from ...runtime.store.recovery import CUT_OFF
from ...runtime.stream import RefusalDelta, TextDelta, ThinkingDelta
from ...runtime.turns.live_state import MAX_BELOW
from ..show.call_text import CallText
from ..show.ended_calls import EndedCalls
from ..show.inputs import MODEL_HEARS, cancelled, input_text
from ..show.live_pieces import LivePieces
from ..show.question_text import block
from ..show.transcript import Transcript, TurnEvent
from ..terminal.escaping import safe_line, safe_text
from ..terminal.folding import fitted
from ..terminal.style import Style, counted, seconds

if TYPE_CHECKING:
    from ..show.details import VerboseLines

MAX_TAIL_LINES = 3
"""Lines of a running call's output that are shown: enough to see that it goes on."""
MAX_TAIL_CHARS = 2000
"""Characters that are kept for these lines."""
MAX_SHOWN_CALLS = 4
"""Running calls with a place of their own above the input, on the smallest screens too."""
MAX_PROMPTS = 20
"""Inputs that can be edited: nobody goes back further by pressing Esc."""
MAX_SHOWN_INPUTS = 3
"""Inputs that wait, with a row of their own: the next ones."""


RETRY = "/retry runs it again."


class _Running:
    """A call that has begun."""

    def __init__(self, text: CallText, began: float) -> None:
        self.text = text
        self.began = began
        self.tail = ""
        self._below: dict[tuple[str, str], tuple[ChildCall, float]] = {}
        self._asked: set[str] = set()
        self._asked_at = 0.0

    @property
    def is_asked_about(self) -> bool:
        """Whether a person is asked, whose time is not the call's."""
        return bool(self._asked)

    def start(self, now: float) -> None:
        self.began = now
        self._asked.clear()

    def ask(self, question_id: str, now: float) -> None:
        if not self._asked:
            self._asked_at = now
        self._asked.add(question_id)

    def go_on(self, question_id: str, now: float) -> None:
        if question_id in self._asked:
            self._asked.remove(question_id)
            if not self._asked:
                self.began += now - self._asked_at

    def hear(self, call: ChildCall, now: float) -> None:
        """Note how a call of a session below stands."""
        key = call.session_id, call.child_call_id
        _, began = self._below.pop(key, (None, now))
        if call.state != "finished":
            self._below[key] = call, now if call.state == "started" else began
            if len(self._below) > MAX_BELOW:
                del self._below[next(iter(self._below))]

    def below(self, style: Style, now: float) -> list[str]:
        """Return a line for each of the calls below that run, the latest last."""
        sign = "⋯" if style.signs else "."
        lines = []
        for call, began in [*self._below.values()][-MAX_TAIL_LINES:]:
            took = (
                "waits for an answer"
                if call.state == "asks"
                else seconds(round((now - began) * 1000))
            )
            name, subject = safe_line(call.name), safe_line(call.subject)
            lines.append(f"{sign} {name} {took}  {subject}".rstrip())
        return lines

    def add(self, text: str) -> None:
        self.tail = f"{self.tail}\n{safe_text(text)}"[-MAX_TAIL_CHARS:]


class ChatView:
    """Shows one session.

    Args:
        session_id: The session.
        transcript: Writes the rows that stay.
        write: Prints text of callboard's own.
        style: What can be shown.
        is_live: Whether states have rows of their own; without, they are printed as they come.
        now: The time in seconds, for how long things take.
        details: Makes the lines of `--verbose`.

    Attributes:
        seq: The `seq` of the last event on record that was shown.
        past_seq: The `seq` of the last event that was on record when the session was opened: of what failed up to
            there, only the last turn can be run again.
        epoch: The store in which that counts; empty before anything was heard.
        is_running: Whether a turn is under way.
        turn_input: The input that the last turn answers; empty when its start was not heard.
        outcome: How the last turn ended.
        context_tokens: What the last model call read and wrote, where that was counted.
        plan: The model's plan.
        thinking: The model's last reasoning.
        answer: The last text of the model, as it wrote it.
        ended_calls: The calls that ended last, with their outputs.
        prompts: The latest inputs that began a turn at once, each with its `seq`.
        waiting: The inputs that wait for their turn, by their ids.
        withdrawn: Those of them that the person takes back, of which nothing is printed.
    """

    def __init__(
        self,
        session_id: str,
        transcript: Transcript,
        write: Callable[[str], None],
        style: Style,
        *,
        is_live: bool,
        now: Callable[[], float],
        details: VerboseLines | None = None,
    ) -> None:
        self.session_id = session_id
        self.seq = self.past_seq = 0
        self.epoch = ""
        self.is_running = False
        self.turn_input = ""
        self.outcome = ""
        self.context_tokens = 0
        self.title = ""
        self.plan: tuple[PlanItem, ...] = ()
        self.thinking = ""
        self.answer = ""
        self.ended_calls = EndedCalls()
        self.prompts: deque[InputAccepted] = deque(maxlen=MAX_PROMPTS)
        self.waiting: dict[str, InputAccepted] = {}
        self.withdrawn: set[str] = set()
        self._unshown: set[str] = set()
        self._transcript = transcript
        self._write = write
        self._style = style
        self._is_live = is_live
        self._now = now
        self._details = details
        self._pieces = LivePieces()
        self._shown: list[str] = []
        self._thinking_since: float | None = None
        self._began = 0.0
        self._running: dict[str, _Running] = {}
        self._owes_advice = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits to."""
        return not self.is_running and not self.waiting

    def take(self, event: RemoteEvent) -> None:
        """Show an event."""
        if isinstance(event, Stored):
            self.seq = event.seq
        for each in self._pieces.take(event):
            self._take_piece(each)
            if self._details is not None and (said := self._details.line(each)):
                self.notice(said)
        if self._owes_advice and self.seq >= self.past_seq:
            self._owes_advice = False
            self.notice(RETRY)

    def _take_piece(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._text(text)
            case ThinkingDelta():
                self._think(event)
            case CallProgress():
                self._progress(event)
            case ChildCall():
                self._child_call(event)
            case MessageDiscarded():
                self._forget_answer()
                self._transcript.show(event)
            case Event():
                self._take_stored(event)
            case _:
                pass

    def notice(self, text: str) -> None:
        """Print a line of callboard's own."""
        self._transcript.notice(text)

    def answered_here(self, approval_id: str) -> None:
        """Note that the answer to this question is given at this terminal."""
        self._transcript.answered_here(approval_id)

    def interrupt(self) -> None:
        """End text that stands open, because something else is printed next."""
        self._transcript.interrupt()

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def _text(self, text: str) -> None:
        if text:
            self._end_thinking()
            self._shown.append(text)
            self._transcript.show(TextDelta(text))

    def _think(self, event: ThinkingDelta) -> None:
        if self._thinking_since is None:
            self._thinking_since = self._now()
            if not self._is_live:
                self._transcript.show(event)

    def _message(self, message: MessageCompleted) -> None:
        whole = "".join(part.text for part in message.parts if isinstance(part, Text | Refusal))
        shown = "".join(self._shown)
        if whole.startswith(shown):
            self._text(whole[len(shown) :])
        else:
            self._transcript.show(MessageDiscarded("", "the record has another text"))
            self._text(whole)
        self._forget_answer()
        if (usage := message.usage) is not None and usage.input_tokens is not None:
            self.context_tokens = usage.input_tokens + (usage.output_tokens or 0)
        self.answer = whole or self.answer
        if thinking := "\n".join(p.text for p in message.parts if isinstance(p, Thinking)):
            self.thinking = thinking
        self._transcript.show(message)

    def _forget_answer(self) -> None:
        self._shown.clear()
        self._end_thinking()

    def _end_thinking(self) -> None:
        if self._thinking_since is not None:
            took = seconds(round((self._now() - self._thinking_since) * 1000))
            self._thinking_since = None
            if self._is_live:
                text = f"thought for {took} (/thinking shows it)"
                self._write(self._style.paint(text, "dim") + "\n")

    # ── what is on record ────────────────────────────────────────────────────────────────────────

    def _take_stored(self, event: Event) -> None:
        match event:
            case InputAccepted(source=InputSource.PERSON):
                self._input(event)
            case InputCancelled(input_id=input_id) if input_id in self.withdrawn:
                del self.waiting[input_id]
                self._unshown.discard(input_id)
            case InputCancelled(reason=reason):
                self._begin_input(event.input_id, cancelled(reason))
            case InputDelivered():
                self._begin_input(event.input_id, MODEL_HEARS)
            case TurnStarted():
                self.is_running, self._began = True, self._now()
                self._owes_advice = False
                self.turn_input = event.input_ids[0]
                for input_id in event.input_ids:
                    self._begin_input(input_id)
            case TurnResumed():
                self.is_running, self._began = True, self._now()
                self._transcript.show(event)
            case MessageCompleted():
                self._message(event)
            case MessageSent():
                self._transcript.interrupt()
                head = self._style.paint("message:", "bold")
                self._write("\n".join([head, *block(event.text)]) + "\n")
            case TitleSet():
                self.title = event.title
            case PlanSet():
                self.plan = event.items
                self._transcript.show(event)
            case _:
                self._take_call(event)

    def _take_call(self, event: Event) -> None:
        match event:
            case CallProposed():
                text = CallText(event.name, event.arguments)
                self._running[event.call_id] = _Running(text, self._now())
            case CallStarted():
                if (running := self._running.get(event.call_id)) is not None:
                    running.start(self._now())
                    if self._is_live and not running.text.code():
                        return  # its line stands above the input
            case ApprovalAsked() | ApprovalAnswered() | QuestionAsked() | QuestionAnswered():
                self._take_question(event)
            case CallFinished():
                running = self._running.pop(event.call_id, None)
                self.ended_calls.add(event, running.text if running is not None else None)
            case CallDeferred():
                self._running.pop(event.call_id, None)
            case TurnEnded():
                self._forget_answer()
                self._running.clear()
                self.is_running, self.outcome = False, event.outcome
                if event.message and event.outcome != "answered":
                    is_failed = event.outcome == "failed" and self._is_live
                    is_open = is_failed or event.message == CUT_OFF
                    self._owes_advice = is_open and self.seq < self.past_seq
                    is_said = is_open and not self._owes_advice
                    self.notice(f"{event.message}{f' {RETRY}' if is_said else ''}")
            case _:
                pass
        self._transcript.show(event)  # type: ignore[arg-type]  # each is one of the union

    def _take_question(
        self, event: ApprovalAsked | ApprovalAnswered | QuestionAsked | QuestionAnswered
    ) -> None:
        """Let the clock of a call stand still while a person is asked: their time is not the tool's."""
        if (running := self._running.get(event.call_id)) is None:
            return
        match event:
            case ApprovalAsked(approval_id=question_id) | QuestionAsked(question_id=question_id):
                running.ask(question_id, self._now())
            case (
                ApprovalAnswered(approval_id=question_id)
                | QuestionAnswered(question_id=question_id)
            ):
                running.go_on(question_id, self._now())

    def _input(self, said: InputAccepted) -> None:
        if self.is_idle:
            self.prompts.append(said)
        self.waiting[said.input_id] = said
        if self._is_live and self.is_running:
            self._unshown.add(said.input_id)
        else:
            self._show_input(said)

    def _begin_input(self, input_id: str, note: str = "") -> None:
        """Print an input at its place, if it waited until now in a row of its own."""
        if (said := self.waiting.pop(input_id, None)) is None:
            return
        if input_id in self._unshown:
            self._unshown.discard(input_id)
            self._show_input(said)
        if note:
            self.notice(note)

    def _show_input(self, said: InputAccepted) -> None:
        self._transcript.interrupt()
        self._write(input_text(said, self._style))

    # ── what is under way ────────────────────────────────────────────────────────────────────────

    def _progress(self, event: CallProgress) -> None:
        running = self._running.get(event.call_id)
        if self._is_live and running is not None:
            running.add(event.text)
        else:
            self._transcript.show(event)

    def _child_call(self, call: ChildCall) -> None:
        if (running := self._running.get(call.call_id)) is not None:
            running.hear(call, self._now())
        self._transcript.show(call)

    def live_lines(self, columns: int) -> list[str]:
        """Return the lines above the input, as of now."""
        width = max(columns - 1, 1)
        lines: list[str] = []
        now = self._now()
        for running in list(self._running.values())[:MAX_SHOWN_CALLS]:
            lines += self._call_lines(running, now, width)
        if more := len(self._running) - MAX_SHOWN_CALLS:
            lines += [f"… and {counted(more, 'call')} more"] if more > 0 else []
        sign = "▸" if self._style.signs else ">"
        hidden = [each for each in self.waiting.values() if each.input_id in self._unshown]
        for waiting in hidden[:MAX_SHOWN_INPUTS]:
            how = "steers the turn" if waiting.mode is InputMode.STEER else "waits for its turn"
            said = fitted(f"{sign} {safe_line(waiting.text)}", max(width - len(how) - 3, 1))
            lines.append(self._style.paint(f"{said} ({how})", "dim"))
        if self.is_running or self.waiting:
            lines.append(self._style.paint(fitted(self._state(now), width), "dim"))
        return lines

    def _call_lines(self, running: _Running, now: float, width: int) -> list[str]:
        took = seconds(round((now - running.began) * 1000))
        if running.is_asked_about:
            took = "waits for an answer"
        sign = "⋯" if self._style.signs else "."
        head = fitted(f"{sign} {running.text.name} {took}  {running.text.subject}", width)
        tail = running.below(self._style, now)
        tail = tail or [line for line in running.tail.split("\n") if line.strip()][-MAX_TAIL_LINES:]
        bar = "│" if self._style.signs else "|"
        return [
            self._style.paint(head, "yellow"),
            *(
                self._style.paint(fitted(f"  {bar} {line.expandtabs(4)}", width), "dim")
                for line in tail
            ),
        ]

    def _state(self, now: float) -> str:
        what = "thinking" if self._thinking_since is not None else "working"
        parts = [f"{what} {seconds(1000 * int(now - self._began))}"] if self.is_running else []
        if self.waiting:
            parts.append(f"{counted(len(self.waiting), 'input')} waiting")
        if self.plan:
            done = sum(item.status == "done" for item in self.plan)
            parts.append(f"plan {done}/{len(self.plan)}")
        return (" · " if self._style.signs else ", ").join(parts)
