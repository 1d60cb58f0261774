"""How a run ends before its time: by signals, the end of the process that the shell waits for, a reader that has left.

the turn is cancelled ──► what the run does for itself is left ──► the whole run, once no turn of others works here

Turns of others in this process outlive all of that, where the shell has a process of its own to wait for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from ...runtime.errors import CallboardError, NetworkError
from ...tools.processes.process_tree import end_descendants
from ..ask.terminal_channel import TerminalChannel
from ..exit_codes import FAILED, INTERRUPTED
from ..terminal.output import Output
from .pending import waits_for_person

if TYPE_CHECKING:  # whichever the run works with is imported when it opens
    from ...embedding.turn import Turn
    from ..sharing.door import Door
    from .local import LocalPlace
    from .remote import RemotePlace, RemoteTurn
    from .shell import Shell

    RunPlace: TypeAlias = LocalPlace | RemotePlace
    RunTurn: TypeAlias = Turn[Any] | RemoteTurn

GRACE_SECONDS = 2.0
"""Time to print the summary of a cancelled turn: its reader may be stopped."""

END_SECONDS = 1.0
"""Time to see the programs gone that a second signal kills."""

SAME_SECONDS = 0.5
"""Time in which a signal that was passed on, and comes by itself, is one: `timeout` sends it in both ways, and a busy
machine is late with one of them."""

STOPPING = (signal.SIGINT, signal.SIGTERM)


def stopping_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a run: a hangup too, unless whoever started it has that ignored (nohup)."""
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return STOPPING if is_nohup else (*STOPPING, signal.SIGHUP)


class EarlyEnd:
    """Stops a run, and nothing of others.

    Attributes:
        code: The exit code of a run that was stopped; `None` until then.
        scope: Holds the whole run.
        own: Holds what the run does for itself in its place; leaving the place stays for others.
        saying: Holds the last words of a run that stays for others.
        place: Where the run works, while that is open.
        session_id: Its session, once there is one.
        turn: The turn that it plays, or played last.
        stays: Whether the run is over, and the process stays for turns of others.

    Args:
        shell: The process that the shell waits for, if it is another one.
        channel: Asks at the terminal, if anybody is there.
        output: Where the run says that it is cancelled.
        notice: Says it.
        terminals: Descriptors of terminals that the run has opened.
    """

    def __init__(
        self,
        shell: Shell | None,
        channel: TerminalChannel | None,
        output: Output,
        notice: Callable[[str], None],
        terminals: tuple[int, ...],
    ) -> None:
        self.code: int | None = None
        self.scope, self.own, self.saying = (trio.CancelScope() for _ in range(3))
        self.place: RunPlace | None = None
        self.session_id = ""
        self.turn: RunTurn | None = None
        self.stays = False
        self._shell = shell
        self._channel = channel
        self._output = output
        self._notice = notice
        self._terminals = terminals
        self._is_interrupted = False
        self._passed_on_at = -SAME_SECONDS
        self._is_alone, self._again = trio.Event(), trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def be_alone(self) -> None:
        """Note that no turn of others works in this process: its end is nobody else's."""
        self._is_alone.set()

    def stay(self) -> None:
        """Note that the run is over but for its last words, for which a stopped reader has its time."""
        self.stays = True
        if self.code is not None:
            self._bound_last_words()

    async def serve_left(self, door: Door, code: int) -> None:
        """Give the shell its prompt, unless it has it; return when no turn of others works here."""
        self._hand_over(code)
        await door.serve_left()

    async def watch_signals(self, signals: AsyncIterator[int]) -> None:
        """Cancel the turn at the first Ctrl-C; the second ends the process on the spot, or hands it to others."""
        async for number in signals:
            if number == signal.SIGHUP and self._shell is not None and self._shell.was_killed:
                continue  # the terminal ended with the process that the shell waited for: see `watch_shell`
            await self._interrupted()
            return

    async def watch_shell(self, shell: Shell) -> None:
        """Do the same with a signal that only the process had that the shell waits for; stop when that was killed."""
        while await shell.next_signal() is not None:
            if not self._is_interrupted:
                self._passed_on_at = time.monotonic()
            await self._interrupted()
        if shell.has_prompt:
            return
        if (place := self.place) is not None and self.session_id:
            has_others = place.door is not None and await place.door.at_work()
            if not has_others and await waits_for_person(place.store, self.session_id):
                self._exit_at_once()  # as that process was: what waits for a person is on record
        await self.stop("the process that the shell waits for has ended", FAILED)

    async def _interrupted(self) -> None:
        if self._is_interrupted:
            return
        self._is_interrupted = True
        for number in stopping_signals():
            # Python's own handler: it runs even when the loop is stuck.
            signal.signal(number, lambda *_: self._interrupted_again())
        if os.isatty(self._output.descriptor):
            self._output.write("\r")  # over the ^C
        has_others = self._shell is not None and self.place is not None and self.place.has_others
        again = "gives the prompt back" if has_others else "exits"
        self._notice(f"cancelling… (Ctrl-C again {again} at once)")
        await self.stop("interrupted", INTERRUPTED)

    def _interrupted_again(self) -> None:
        """End the process on the spot; or, where others use it, give the shell its prompt on the spot."""
        if time.monotonic() - self._passed_on_at < SAME_SECONDS:
            return  # the same, which was sent to the group as well
        shell, place = self._shell, self.place
        if shell is None or shell.has_prompt or place is None or not place.has_others:
            self._exit_at_once()
            return
        self._hand_over(INTERRUPTED)
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._hurry)

    def _hurry(self) -> None:
        """Wait for no summary and for no last words: the shell has its prompt."""
        self._again.set()
        self.own.cancel(reason="interrupted again")
        self.saying.cancel(reason="interrupted again")

    def _hand_over(self, code: int) -> None:
        if self._shell is None or self._shell.has_prompt:
            return
        if self._channel is not None:
            self._channel.hang_up()
        self._shell.give_back(code, *self._terminals)

    def _exit_at_once(self) -> None:
        if self._channel is not None:
            self._channel.abandon()
        end_descendants(END_SECONDS)
        os._exit(INTERRUPTED)

    async def stop(self, why: str, code: int) -> None:
        """Cancel what the run does, and then the run, as soon as that ends nothing of others."""
        if self.code is not None:
            return
        self.code = code
        if self.stays:
            if self._shell is None:
                self.scope.cancel(reason=why)  # as it was said: this ends what others do here
            else:
                self._bound_last_words()
            return
        turn, place = self.turn, self.place
        try:
            if turn is not None and turn.ended is None:
                await turn.cancel(why)
                with trio.move_on_after(GRACE_SECONDS):
                    await self._again.wait()
            elif place is not None and self.session_id:
                await place.end_below(self.session_id, why)
        except NetworkError as error:
            self._notice(str(error))
        except CallboardError:
            pass  # the runtime is closing, which ends all
        if place is not None and place.door is not None:
            self.own.cancel(reason=why)
            if self.stays:
                self._bound_last_words()
            await self._is_alone.wait()
        self.scope.cancel(reason=why)

    def _bound_last_words(self) -> None:
        self.saying.deadline = trio.current_time() + GRACE_SECONDS
