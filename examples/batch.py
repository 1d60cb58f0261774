"""A batch: a thousand prompts, sixteen at a time, with a progress bar and a budget for all of them.

What is done is on record in `batch/data`: a batch that was stopped goes on where it was.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import trio
from rich.console import Console
from rich.progress import Progress

import callboard
from callboard import reply

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
AT_ONCE = 16
MAX_TOKENS = 50 * COUNT  # of the whole batch; each turn has a budget of its own, too
EACH = callboard.Budget(tokens=2_000, seconds=120)

WORK = Path("batch/work")  # sessions work in a folder, also those without tools

# In place of a model, so that this runs without a key: every request gets this answer.
model = callboard.ScriptedModel([reply("Positive.")] * COUNT)
# Texts to be judged need no tools, and so nothing that could ask.
judge = callboard.Agent(name="judge", prompt="Say whether a review is positive.", tools=())


class Batch:
    """What is done, and what it took."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.failures: dict[str, str] = {}
        self.tokens = 0

    async def work(
        self,
        runtime: callboard.Runtime,
        prompts: trio.MemoryReceiveChannel[str],
        advance: Callable[[], None],
    ) -> None:
        """Takes one prompt after the other, until there is none or the budget is used up."""
        async for prompt in prompts:
            if self.tokens >= MAX_TOKENS:
                self.failures[prompt] = "the budget of the batch is used up"
                continue
            session = await runtime.create_session(agent="judge", title="unanswered")
            try:
                self.answers[prompt] = await session.run(prompt, budget=EACH)
                await session.rename(prompt)
            except callboard.CallboardError as error:
                self.failures[prompt] = f"{error.type}: {error}"
            total = (await session.usage()).total
            self.tokens += (total.input_tokens or 0) + (total.output_tokens or 0)
            advance()


async def main() -> None:
    """Runs the batch."""
    prompts = [f"Review {number}: it was very good." for number in range(COUNT)]
    batch = Batch()
    opening = callboard.open_runtime(
        model=model, agents=[judge], workspace=WORK, data="batch/data", environ={}
    )
    with Progress(console=Console(stderr=True)) as progress:
        async with opening as runtime, trio.open_nursery() as workers:
            done = {row.title for row in await runtime.sessions(limit=10 * COUNT)} & {*prompts}
            bar = progress.add_task("reviews", total=COUNT, completed=len(done))
            send, receive = trio.open_memory_channel[str](AT_ONCE)
            for _ in range(AT_ONCE):
                workers.start_soon(batch.work, runtime, receive, lambda: progress.advance(bar))
            with send:
                for prompt in prompts:
                    if prompt not in done:
                        await send.send(prompt)
    print(f"{len(done)} before, {len(batch.answers)} answered, {len(batch.failures)} not; "
          f"{batch.tokens} tokens")  # fmt: skip


WORK.mkdir(parents=True, exist_ok=True)
trio.run(main)
