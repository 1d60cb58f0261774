# ruff: file-ignore[yield-outside-function]  cells may await: the notebook runs them in one event loop
"""A notebook: cells that run one after another, in an event loop that is already running."""

# %% The runtime stays open from this cell on.
import callboard

runtime = await callboard.aio.open_runtime(model="rehearsal")
session = await runtime.create_session(title="My notebook")

# %% Ask, and see the answer as it comes.
async with session.prompt("Write 'buy milk' to list.txt.") as turn:
    async for event in turn:
        if isinstance(event, callboard.TextDelta):
            print(event.text, end="")

# %% Ask again, in the same session.
print(await session.run("Read list.txt."))

# %% Cells that don't await have the plain way. It works here too, though it blocks the notebook.
with callboard.start_in_thread(model="rehearsal") as other:
    print(other.create_session().run("What time is it in Tokyo?"))

# %% What is on record.
for message in await runtime.store.messages(session.session_id):
    print(f"{message.type}: {message.content.splitlines()[0] if message.content else ''}")

# %% At last.
await runtime.aclose()
