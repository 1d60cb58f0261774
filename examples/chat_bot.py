"""A bot in a chat service, as for Discord or Slack: a session for each channel, questions to its people.

`FakeService` stands for the library of the service. With discord.py, `on_message` calls `bot.heard`, and
`post` is `channel.send`.
"""

import asyncio

import callboard

MAX_MESSAGE = 2_000  # what Discord takes at once


class FakeService:
    """Three people who type, and a screen."""

    said = (
        ("tea", "Write 'buy milk' to list.txt."),
        ("time", "What time is it in Tokyo?"),
        ("tea", "Delete list.txt."),
        ("tea", "yes"),
    )

    def __init__(self) -> None:
        self.posted = asyncio.Event()

    async def answered(self) -> None:
        """Waits until the bot has said something."""
        await self.posted.wait()
        self.posted.clear()

    async def post(self, channel: str, text: str) -> None:
        """Shows a message of the bot."""
        print(f"#{channel} bot: {text}")
        self.posted.set()


class Bot:
    """Answers each channel in a session of its own."""

    def __init__(self, service: FakeService) -> None:
        self.service = service
        self.sessions: dict[str, callboard.aio.Session] = {}
        self.asked: dict[str, asyncio.Future[str]] = {}

    async def heard(self, channel: str, text: str) -> None:
        """Takes a message: the answer to an open question, or a prompt."""
        if channel in self.asked:
            self.asked.pop(channel).set_result(text)
            return
        if channel not in self.sessions:
            # To find them again after a restart: open the runtime with `data=`, and keep session_id.
            self.sessions[channel] = await self.runtime.create_session(title=f"#{channel}")
        try:
            answer = await self.sessions[channel].run(text)
        except callboard.CallboardError as error:  # a budget, a provider, a refusal: said to people
            answer = f"That did not work: {error}"
        for start in range(0, len(answer), MAX_MESSAGE):
            await self.service.post(channel, answer[start : start + MAX_MESSAGE])

    async def may_run(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        """Asks the channel whose turn it is; the next message there is the answer."""
        found = [name for name, each in self.sessions.items()
                 if each.session_id == (request.asked_in or request.session_id)]  # fmt: skip
        [channel] = found
        self.asked[channel] = asyncio.get_running_loop().create_future()
        await self.service.post(channel, f"May I run {request.tool} {request.arguments}? (yes/no)")
        try:
            said = await self.asked[channel]
        finally:
            self.asked.pop(channel, None)  # nobody answered in time
        allowed = said.strip().lower() == "yes"
        return callboard.ApprovalAnswer(
            decision="allow" if allowed else "deny", answered_by=channel
        )

    async def serve(self) -> None:
        """Opens the runtime, and hears everybody at once: a channel never waits for another."""
        async with (
            callboard.aio.open_runtime(model="rehearsal", on_approval=self.may_run) as self.runtime,
            asyncio.TaskGroup() as tasks,
        ):
            for channel, text in self.service.said:
                print(f"#{channel} somebody: {text}")
                tasks.create_task(self.heard(channel, text))
                await self.service.answered()


asyncio.run(Bot(FakeService()).serve())
