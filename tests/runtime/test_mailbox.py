from __future__ import annotations

import pytest
import trio
import trio.testing

from callboard.runtime.errors import ActorStopped, OverloadedError, StorageError
from callboard.runtime.kernel.mailbox import Mailbox, MailboxStatistics, Message, Reply, Request
from callboard.runtime.kernel.supervisor import RESTART_DELAY_SECONDS, Supervisor


class Double(Request[int], frozen=True, kw_only=True):
    number: int


class Closing(Message, frozen=True):
    """A message that hands a channel down."""

    outlet: trio.MemorySendChannel[int]

    def abandon(self) -> None:
        self.outlet.close()


class Doubler:
    """Answers; crashes on a negative number while it holds the request."""

    def __init__(self, mailbox: Mailbox[Double]) -> None:
        self._mailbox = mailbox

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with self._mailbox.open() as messages:
            task_status.started()
            async for message in messages:
                with message.reply:
                    if message.number < 0:
                        raise ValueError("negative")
                    message.reply.send(message.number * 2)


def double(number: int) -> Double:
    return Double(number=number)


async def ask(mailbox: Mailbox[Double], number: int) -> int:
    answer: int = await mailbox.ask(Double(number=number))
    return answer


# ── reply ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_reply_brings_its_answer_before_and_after_the_wait() -> None:
    reply: Reply[int] = Reply()
    assert not reply.is_done
    heard: list[int] = []

    async def wait() -> None:
        heard.append(await reply.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        reply.send(3)
    assert reply.is_done
    assert [*heard, await reply.wait()] == [3, 3]


async def test_a_failed_reply_raises_its_error() -> None:
    reply: Reply[int] = Reply()
    reply.fail(StorageError("no disk"))
    with pytest.raises(StorageError, match="no disk"):
        await reply.wait()


@pytest.mark.parametrize("first", ["send", "fail", "abandon"])
@pytest.mark.parametrize("second", ["send", "fail"])
def test_a_reply_is_answered_once(first: str, second: str) -> None:
    reply: Reply[int] = Reply()
    answers = {
        "send": lambda: reply.send(1),
        "fail": lambda: reply.fail(StorageError("x")),
        "abandon": reply.abandon,
    }
    answers[first]()
    with pytest.raises(RuntimeError, match="answered once"):
        answers[second]()


async def test_abandoning_does_nothing_to_an_answer() -> None:
    reply: Reply[int] = Reply()
    with reply:
        reply.send(1)
    reply.abandon()
    assert await reply.wait() == 1


async def test_leaving_the_block_without_an_answer_abandons() -> None:
    reply: Reply[int] = Reply()
    with reply:
        pass
    with pytest.raises(ActorStopped, match="ask again"):
        await reply.wait()


async def test_cancelling_the_asker_loses_only_the_answer() -> None:
    reply: Reply[int] = Reply()
    with trio.move_on_after(0) as scope:
        await reply.wait()
    assert scope.cancelled_caught
    reply.send(5)
    assert await reply.wait() == 5


async def test_a_reply_that_is_there_can_still_be_cancelled() -> None:
    reply: Reply[int] = Reply()
    reply.send(1)
    with trio.move_on_after(0) as scope:
        await reply.wait()
    assert scope.cancelled_caught


# ── mailbox ──────────────────────────────────────────────────────────────────────────────────────


async def test_messages_come_in_order_and_statistics_count_them() -> None:
    mailbox: Mailbox[Double] = Mailbox("x", 2)
    await mailbox.tell(double(1))
    mailbox.tell_nowait(double(2))
    assert mailbox.statistics() == MailboxStatistics(2, 2, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.tell, double(3))
        await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics() == MailboxStatistics(2, 2, 1)
        with mailbox.open() as messages:
            got = [(await messages.receive()).number for _ in range(3)]
    assert got == [1, 2, 3]
    assert mailbox.statistics() == MailboxStatistics(0, 2, 0)
    mailbox.close()


async def test_a_full_mailbox_refuses_who_does_not_wait_and_keeps_what_it_has() -> None:
    mailbox: Mailbox[Double] = Mailbox("the one", 1)
    mailbox.tell_nowait(double(1))
    refused = double(2)
    with pytest.raises(OverloadedError, match="the one is full"):
        mailbox.tell_nowait(refused)
    assert not refused.reply.is_done  # the sender may still answer it itself
    assert mailbox.statistics().depth == 1
    mailbox.close()


async def test_ask_brings_the_answer() -> None:
    mailbox: Mailbox[Double] = Mailbox("doubler", 1)
    async with trio.open_nursery() as nursery:
        await nursery.start(Doubler(mailbox).run)
        assert await ask(mailbox, 21) == 42
        nursery.cancel_scope.cancel()
    mailbox.close()


async def test_closing_abandons_what_waits_inside_and_before_the_door() -> None:
    mailbox: Mailbox[Double] = Mailbox("x", 1)
    stopped: list[int] = []

    async def asker(number: int) -> None:
        with pytest.raises(ActorStopped):
            await ask(mailbox, number)
        stopped.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(asker, number)
        await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics() == MailboxStatistics(1, 1, 3)
        mailbox.close()
        mailbox.close()  # again is harmless
    assert sorted(stopped) == [0, 1, 2, 3]
    assert mailbox.is_closed


async def test_an_actor_that_waits_hears_that_its_mailbox_was_closed() -> None:
    mailbox: Mailbox[Double] = Mailbox("x", 1)

    async def wait() -> None:
        with mailbox.open() as messages, pytest.raises(trio.ClosedResourceError):
            await messages.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()
    with pytest.raises(trio.ClosedResourceError):
        await mailbox.receive()


async def test_what_was_handed_to_a_waiting_actor_is_its_own_whatever_comes_then() -> None:
    """A cancel and a close in the same step take nothing back; one more message goes into the queue."""
    mailbox: Mailbox[Double] = Mailbox("x", 1)
    got: list[int] = []
    scope = trio.CancelScope()

    async def wait() -> None:
        with scope, mailbox.open() as messages:
            got.append((await messages.receive()).number)
            await messages.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        handed, waiting = double(1), double(2)
        mailbox.tell_nowait(handed)
        mailbox.tell_nowait(waiting)
        scope.cancel()
        mailbox.close()
    assert got == [1]
    assert (handed.reply.is_done, waiting.reply.is_done) == (False, True)


async def test_who_waits_for_room_has_its_turn_before_who_comes_later() -> None:
    mailbox: Mailbox[Double] = Mailbox("x", 1)
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(mailbox.tell, double(number))
            await trio.testing.wait_all_tasks_blocked()
        with mailbox.open() as messages:
            assert messages.receive_nowait().number == 0
            with pytest.raises(OverloadedError):
                mailbox.tell_nowait(double(9))  # the place that came free is taken already
            assert [(await messages.receive()).number for _ in range(3)] == [1, 2, 3]
            with pytest.raises(trio.WouldBlock):
                messages.receive_nowait()
    mailbox.close()


async def test_a_closed_mailbox_refuses_and_abandons() -> None:
    mailbox: Mailbox[Closing] = Mailbox("late", 1)
    mailbox.close()
    outlet, inlet = trio.open_memory_channel[int](0)
    with pytest.raises(ActorStopped, match="late has ended"):
        await mailbox.tell(Closing(outlet))
    assert inlet.statistics().open_send_channels == 0
    with pytest.raises(ActorStopped, match="late has ended"):
        mailbox.tell_nowait(Closing(outlet))
    inlet.close()


async def test_who_is_cancelled_before_the_door_leaves_no_message_unanswered() -> None:
    mailbox: Mailbox[Double] = Mailbox("x", 1)
    await mailbox.tell(double(1))
    message = double(2)
    with trio.move_on_after(0):
        await mailbox.tell(message)
    assert message.reply.is_done
    assert mailbox.statistics() == MailboxStatistics(1, 1, 0)
    mailbox.close()


# ── mailbox and crash ────────────────────────────────────────────────────────────────────────────


async def test_a_crash_wakes_its_asker_and_the_successor_gets_what_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mailbox: Mailbox[Double] = Mailbox("doubler", 4)
    answers: list[int] = []

    async def crasher() -> None:
        with pytest.raises(ActorStopped):
            await ask(mailbox, -1)
        assert trio.current_time() < RESTART_DELAY_SECONDS  # it waits for no successor

    async def asker() -> None:
        answers.append(await ask(mailbox, 4))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(crasher)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(asker)
        await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics().depth == 2
        async with trio.open_nursery() as actors:
            await Supervisor(actors).start("doubler", lambda: Doubler(mailbox), mailbox)
            await trio.sleep(1)
            actors.cancel_scope.cancel()
    assert answers == [8]
    assert mailbox.is_closed


# ── serving at once ──────────────────────────────────────────────────────────────────────────────


class QuickDoubler:
    """Doubles even numbers in the sender's step, odd ones in its own; crashes over a negative one."""

    def __init__(self, mailbox: Mailbox[Double]) -> None:
        self._mailbox = mailbox
        self.served: list[str] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with self._mailbox.open(self._serve_now) as messages:
            task_status.started()
            async for message in messages:
                with message.reply:
                    self.served.append(f"{message.number} later")
                    await trio.lowlevel.checkpoint()
                    message.reply.send(message.number * 2)

    def _serve_now(self, message: Double) -> bool:
        if message.number < 0:
            raise ValueError("negative")
        if message.number % 2:
            return False
        self.served.append(f"{message.number} now")
        message.reply.send(message.number * 2)
        return True


async def test_an_actor_that_waits_serves_in_the_step_of_the_sender() -> None:
    mailbox: Mailbox[Double] = Mailbox("quick", 4)
    actor = QuickDoubler(mailbox)
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        await trio.testing.wait_all_tasks_blocked()
        first = double(2)
        mailbox.tell_nowait(first)
        assert first.reply.is_done
        assert await ask(mailbox, 4) == 8
        nursery.cancel_scope.cancel()
    assert actor.served == ["2 now", "4 now"]


async def test_no_message_overtakes_one_that_waits_or_is_being_served() -> None:
    mailbox: Mailbox[Double] = Mailbox("quick", 4)
    actor = QuickDoubler(mailbox)
    requests = [double(number) for number in (1, 2, 3, 4)]
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        await trio.testing.wait_all_tasks_blocked()
        for request in requests:
            mailbox.tell_nowait(request)
            assert not request.reply.is_done
        assert [await request.reply.wait() for request in requests] == [2, 4, 6, 8]
        nursery.cancel_scope.cancel()
    assert actor.served == ["1 later", "2 later", "3 later", "4 later"]


async def test_a_crash_at_once_is_the_actors_and_its_successor_goes_on(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox: Mailbox[Double] = Mailbox("quick", 4)
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(nursery)
        await supervisor.start("quick", lambda: QuickDoubler(mailbox), mailbox)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ActorStopped):
            await ask(mailbox, -1)
        assert await ask(mailbox, 2) == 4
        nursery.cancel_scope.cancel()
    assert "quick crashed" in caplog.text
    assert supervisor.restarts == {"quick": 1}
