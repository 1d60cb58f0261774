"""A command line program that shows how far a turn is: a bar for each call, and the answer at the end."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import callboard
from callboard import reply

REGIONS = ("north", "south", "east", "west")


@callboard.tool(tier="read_only", effect="read")
def count_orders(region: str, context: callboard.ToolContext) -> int:
    """Counts the orders of a region."""
    for percent in range(20, 101, 20):
        time.sleep(0.01)  # this is where the work is
        context.progress(str(percent))  # any text; the program below reads a number
    return len(region) * 10


# In place of a model, so that this runs without a key.
model = callboard.ScriptedModel(
    [
        reply("I count.", calls=[("count_orders", {"region": region}) for region in REGIONS]),
        reply("There are 180 orders."),
    ]
)

columns = (TextColumn("{task.description:24}"), BarColumn(), TimeElapsedColumn())
with (
    callboard.start_in_thread(model=model, tools=[count_orders]) as runtime,
    runtime.create_session().prompt("How many orders are there?") as turn,
    Progress(*columns, console=Console(stderr=True)) as progress,
):
    bars = {}
    for event in turn:
        match event:
            case callboard.CallProposed(call_id=call_id, name=name, arguments=arguments):
                bars[call_id] = progress.add_task(f"{name} {arguments}", total=100)
            case callboard.CallProgress(call_id=call_id, text=text):
                progress.update(bars[call_id], completed=int(text))
            case callboard.CallFinished(call_id=call_id, status=status):
                done = 100 if status == "success" else None
                progress.update(bars[call_id], completed=done)
            case callboard.MessageCompleted(parts=parts):
                answer = "".join(part.text for part in parts if hasattr(part, "text"))
    outcome = turn.ended
print(answer if outcome and outcome.outcome == "answered" else f"It ended: {outcome}")
