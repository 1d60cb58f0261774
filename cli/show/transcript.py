"""A turn as a person reads it: the text as it comes, a line for each call, a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ...config.prices import PriceTable
from ...runtime.definitions import CallStatus, InputSource
from ...runtime.event_types.plan import plan_lines
from ...runtime.events import (
    AgentSwitched,
    AnswerRejected,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProgress,
    CallProposed,
    CallStarted,
    ChildAsks,
    ChildCall,
    DurableEvent,
    GrantGiven,
    GrantRevoked,
    HistoryCompacted,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    MessageDiscarded,
    ModelSwitched,
    PlanSet,
    PrivateDataRead,
    ProviderSetAside,
    QuestionAnswered,
    QuestionAsked,
    SessionTainted,
    Stored,
    ToolGivenUp,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from ...runtime.history import Call, Part, Refusal, Text
from ...runtime.store.rows import CallRow
from ...runtime.stream import AnyStreamEvent, RefusalDelta, TextDelta, ThinkingDelta
from ...tools.schema.validation import without_advice
from ..hints import command_line, runnable
from ..terminal.escaping import safe_line, safe_text, short_path, shortened
from ..terminal.style import Style, counted, dollars, seconds
from .below import BelowLines
from .call_text import CallText, how_ended
from .event_lines import answer_line, event_line, trouble_line
from .inputs import Inputs
from .question_text import ANSWERED_BY

MAX_FOLDER_CHARS = 70
"""A folder on a line of its own keeps so much of its end."""
MAX_LINE_CHARS = 500
"""A line about a call is cut here; `callboard show` has all of it."""

TurnEvent = AnyStreamEvent | DurableEvent | CallProgress | ChildCall | MessageDiscarded


class Transcript:
    """Writes the events of one turn as text.

    Args:
        write: Takes pieces of text.
        style: What can be shown.
        session_id: The last word of the summary; empty for none.
        prices: The prices by which the summary counts the cost.
        write_text: Takes the model's own text; `write` by default.
        write_whole: Takes a line that is not folded; `write` by default, with the end of the line.
        columns: How wide the terminal is now, if it is one.
        is_live: Whether what runs is shown elsewhere meanwhile.
        shows_inputs: Whether what people say is shown, apart from what is said at this terminal.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        style: Style,
        session_id: str = "",
        prices: PriceTable | None = None,
        write_text: Callable[[str], object] | None = None,
        write_whole: Callable[[str], object] | None = None,
        columns: Callable[[], int] | None = None,
        *,
        is_live: bool = False,
        shows_inputs: bool = False,
    ) -> None:
        self._is_live = is_live
        self._inputs = Inputs(style) if shows_inputs else None
        self._said_here: set[str] = set()
        self._below = BelowLines(style)
        self.session_id = session_id
        self._columns = columns
        self._prices = prices or PriceTable()
        self._write = write
        self._write_text = write_text or write
        self._write_whole = write_whole or self._line
        self._style = style
        self._bar = "│" if style.signs else "|"
        self._open: dict[str, CallText] = {}
        self._answered_here: set[str] = set()
        self._denied_here: set[str] = set()
        self._asked_about: set[str] = set()
        self._is_tainted = False
        self._is_in_text = False
        self._is_thinking = False
        self._last = "\n"
        self._begin_turn()

    def _begin_turn(self) -> None:
        """Start the counts of a turn's summary."""
        self._calls = 0
        self._failed_calls = self._denied_calls = 0
        self._tokens_in: int | None = None
        self._tokens_out: int | None = None
        self._cost = 0.0
        self._lacks_cost = False

    def know(self, calls: Iterable[CallRow]) -> None:
        """Note calls that were proposed before this transcript began."""
        self._open.update((call.call_id, CallText(call.name, call.arguments)) for call in calls)

    def answered_here(self, approval_id: str) -> None:
        """Note that the answer to this question is given at this terminal."""
        self._answered_here.add(approval_id)

    def said_here(self, input_id: str) -> None:
        """Note that this input is said at this terminal."""
        self._said_here.add(input_id)

    def hear(self, event: DurableEvent) -> None:
        """Print what people said elsewhere, at the place where a turn takes it."""
        if self._inputs is None or (
            isinstance(event, InputAccepted) and event.input_id in self._said_here
        ):
            return
        for text, note in self._inputs.take(event):
            self.interrupt()
            self._put(text)
            if note:
                self.notice(note)

    def begin(
        self, session_id: str, model: str, reason: str, folder: str, begun: Sequence[Stored]
    ) -> None:
        """Print the first lines: which model answers, and why, and the folder that it works in."""
        self.session_id = session_id
        self._line(self._style.paint(safe_line(f"model: {model}, {reason}"), "dim"))
        self._line(self._style.paint(f"folder: {short_path(folder, MAX_FOLDER_CHARS)}", "dim"))

    def notice(self, text: str) -> None:
        """Print a line of callboard's own."""
        self.interrupt()
        self._line(self._style.paint(safe_line(runnable(text)), "yellow"))

    def remark(self, text: str) -> None:
        """Print a line of callboard's own that only says how it goes."""
        self.notice(text)

    def advise(self, what: str, command: str) -> None:
        """Print a command of callboard's own that does something, on a line that can be copied."""
        self.notice(f"{what}:")
        self._write_whole(self._style.paint(f"  {safe_line(command)}", "yellow"))

    def show(self, event: TurnEvent, seq: int | None = None, at_ms: int = 0) -> None:
        """Print what a person wants to see of an event."""
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._text(text)
            case ThinkingDelta():
                self._thinking()
            case CallProposed():
                self._open[event.call_id] = CallText(event.name, event.arguments)
            case CallProgress() | ChildCall():
                self._progress(event)
            case CallFinished():
                self._call(event)
            case MessageCompleted():
                self._count(event)
                if not event.incomplete and not any(map(_is_shown, event.parts)):
                    self._note("(the model answered nothing)")
            case MessageDiscarded() if self._is_in_text:
                self._note("(withdrawn: the answer broke off, its text does not count)")
            case (
                AgentSwitched()
                | AttemptFailed()
                | ModelSwitched()
                | ProviderSetAside()
                | HistoryCompacted()
                | AnswerRejected()
            ):
                if isinstance(event, HistoryCompacted) and not event.why_left_out:
                    self._count(event)
                self.notice(shortened(trouble_line(event), MAX_LINE_CHARS))
            case TurnEnded():
                self._summary(event)
            case _:
                self._tell(event)

    def interrupt(self) -> None:
        """End text that stands open, because something else is printed next."""
        if self._last != "\n":
            self._put("\n")
        if self._is_in_text:
            self._put("\n")
        self._is_in_text = self._is_thinking = False

    def _tell(self, event: TurnEvent) -> None:
        """Print what begins, permissions, and what comes between sessions; who asks prints questions."""
        match event:
            case CallStarted():
                self._started(event.call_id)
            case ApprovalAsked() | QuestionAsked() | ChildAsks():
                self._asks(event)
            case ApprovalAnswered():
                self._answered(event)
            case QuestionAnswered(answered_by=who) if who != ANSWERED_BY:
                self._note(event_line(event))
            case CallDeferred() | ToolGivenUp() | TurnSetAside():
                self.notice(shortened(event_line(event), MAX_LINE_CHARS))
            case InputAccepted() | InputCancelled() | InputDelivered() | TurnStarted():
                self._hear(event)
            case SessionTainted():
                self._is_tainted = True
                self._note(event_line(event))
            case PlanSet():
                self._note(event_line(event))
                for line in plan_lines(event.items):
                    self._note(f"  {line}")
            case PrivateDataRead() if self._is_tainted:  # most sessions do, which means little
                self._note(event_line(event))
            case GrantGiven() | GrantRevoked() | TurnSuspended() | TurnResumed():
                self._note(event_line(event))
            case _:
                pass

    def _hear(self, event: InputAccepted | InputCancelled | InputDelivered | TurnStarted) -> None:
        if isinstance(event, InputAccepted) and event.source is not InputSource.PERSON:
            self._note(event_line(event))
        self.hear(event)

    # ── text ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, text: str) -> None:
        if not text:
            return
        if not self._is_in_text:
            self._is_in_text, self._is_thinking = True, False
            self._put("\n")
        self._put(safe_text(text), self._write_text)

    def _thinking(self) -> None:
        """Print one line while the model reasons, on a terminal; the reasoning itself is not printed."""
        if self._is_thinking or not self._style.colours:
            return
        self._note("thinking…")
        self._is_thinking = True

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _count(self, event: MessageCompleted | HistoryCompacted) -> None:
        usage = event.usage
        if usage is not None:
            self._tokens_in = _sum(self._tokens_in, usage.input_tokens)
            self._tokens_out = _sum(self._tokens_out, usage.output_tokens)
        # Without tokens there is no cost to know, and no table to read.
        cost = self._prices.cost(event.provider, event.model, usage) if usage is not None else None
        self._cost += cost or 0.0
        self._lacks_cost = self._lacks_cost or cost is None

    def _asks(self, event: ApprovalAsked | QuestionAsked | ChildAsks) -> None:
        if isinstance(event, ApprovalAsked):
            self._asked_about.add(event.call_id)
        self.interrupt()

    def _answered(self, event: ApprovalAnswered) -> None:
        """Print what was answered elsewhere; a denial is printed with its call."""
        if event.approval_id in self._answered_here:
            self._answered_here.discard(event.approval_id)
            self._denied_here.add(event.call_id)
        if event.decision in {"revised", "void"} or (
            event.decision == "allow" and event.answered_by != ANSWERED_BY
        ):
            call = self._open.get(event.call_id)
            name = call.name if call is not None else event.call_id
            self._note(f"{name}: {answer_line(event)}")

    def _started(self, call_id: str) -> None:
        """Print what a program runs, unless a person here has just read it in a question."""
        self._asked_about.discard(call_id)
        call = self._open.get(call_id)
        if call is None or not call.is_program or call_id in self._denied_here:
            return
        lines = call.code()
        self._note(f"{call.name}:" if lines else f"{call.name}: {call.subject}")
        for line in lines:
            self._line(self._style.paint(f"  {self._bar} {line}", "dim"))

    def _output(self, call: CallText, lines: list[str]) -> None:
        if lines:
            self.interrupt()
        name = f"{call.name}: " if call.name else ""
        for line in lines:
            self._line(self._style.paint(name + line, "dim"))

    def _progress(self, event: CallProgress | ChildCall) -> None:
        if isinstance(event, CallProgress):
            call = self._open.setdefault(event.call_id, CallText("", ""))
            self._output(call, call.output(event.text))
            return
        lines = self._below.take(event, begins=not self._is_live)
        if lines:
            self.interrupt()
        for line in lines:
            self._line(line)
        if lines:
            self._below.head = event.session_id

    def _call(self, call: CallFinished) -> None:
        for line in self._below.end(call.call_id):
            self.interrupt()
            self._line(line)
        known = self._open.pop(call.call_id, None) or CallText(call.name, "")
        self._output(known, known.rest(command_line(f"callboard show {self.session_id}".rstrip())))
        if call.arguments is not None:  # a person may have changed them
            known = CallText(call.name, call.arguments)
        self._calls += 1
        is_good, is_denied = call.status is CallStatus.SUCCESS, call.status is CallStatus.DENIED
        self._denied_calls += is_denied
        self._failed_calls += not (is_good or is_denied)
        never_ran = call.call_id in self._asked_about
        self._asked_about.discard(call.call_id)
        head = f"{safe_line(call.name)}{how_ended(call, never_ran=never_ran)}"
        said = safe_line(without_advice(call.display or _brief(call.result)))
        said = said.removeprefix(f"{known.name}: ")
        if call.status is CallStatus.DENIED:
            # At which one is not known: it may be this one, in an earlier run.
            who = "by you" if call.call_id in self._denied_here else "at a terminal"
            said = said.replace(f"denied by {ANSWERED_BY}", f"denied {who}", 1)
        self._denied_here.discard(call.call_id)
        self.interrupt()
        line = f"{self._style.mark(call.status)} {shortened(head, MAX_LINE_CHARS)}"
        about = "" if known.subject in said else f"  {known.subject}"
        self._line(f"{line}{about}  {shortened(said, MAX_LINE_CHARS)}".rstrip())

    def _summary(self, ended: TurnEnded) -> None:
        parts = [ended.outcome.replace("_", " "), seconds(ended.duration_ms)]
        if self._calls:
            bad = (("failed", self._failed_calls), ("denied", self._denied_calls))
            how = ", ".join(f"{count} {how}" for how, count in bad if count)
            parts.append(counted(self._calls, "call") + (f" ({how})" if how else ""))
        known = (("tokens in", self._tokens_in), ("tokens out", self._tokens_out))
        parts += [f"{count} {name}" for name, count in known if count is not None]
        if self._cost:
            parts.append(f"{'at least ' if self._lacks_cost else ''}{dollars(self._cost)}")
        self.interrupt()
        dot = " · " if self._style.signs else ", "
        said, whole = dot.join(parts), dot.join(filter(None, [*parts, self.session_id]))
        fits = self._columns is None or len(whole) < self._columns()
        for line in [whole] if fits else [said, self.session_id]:
            self._line(self._style.paint(safe_line(line), "dim"))
        self._begin_turn()

    def _note(self, text: str) -> None:
        self.interrupt()
        self._line(self._style.paint(shortened(safe_line(text), MAX_LINE_CHARS), "dim"))

    def _line(self, text: str) -> None:
        self._put(f"{text}\n")

    def _put(self, text: str, write: Callable[[str], object] | None = None) -> None:
        (write or self._write)(text)
        self._below.head = ""
        self._last = text[-1:] or self._last


def _is_shown(part: Part) -> bool:
    """Return whether a person sees something of it."""
    return bool(part.text) if isinstance(part, Text | Refusal) else isinstance(part, Call)


def _sum(known: int | None, more: int | None) -> int | None:
    """Add counts, where an unknown count is not zero."""
    return known if more is None else (known or 0) + more


def _brief(result: str) -> str:
    """Return what a result says in short: its output, or its error's message."""
    try:
        content = msgspec.json.decode(result)
    except msgspec.DecodeError:
        return result
    if not isinstance(content, dict):
        return result
    said = content.get("result", content.get("message", ""))
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()
