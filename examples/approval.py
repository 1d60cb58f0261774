"""Asking a person: `on_approval` is called with what would run, and answers allow or deny."""

import trio

import callboard


async def ask(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
    """Asks in the terminal; in a thread, so that everything else goes on meanwhile."""
    question = f"\n{request.reason}: {request.tool} {request.arguments} Allow? [y/N] "
    answer = await trio.to_thread.run_sync(input, question, abandon_on_cancel=True)
    if answer.strip().lower() == "y":
        return callboard.ApprovalAnswer(decision="allow")
    return callboard.ApprovalAnswer(decision="deny", reason="the person wants to keep it")


async def main() -> None:
    """Has a file deleted, which always asks under the default policy."""
    old = trio.Path("old.txt")
    await old.write_text("old")
    async with callboard.open_runtime(model="rehearsal", on_approval=ask) as runtime:
        session = await runtime.create_session()
        print(await session.run("Delete the file old.txt."))
    print("It is still there." if await old.exists() else "It is gone.")


trio.run(main)
