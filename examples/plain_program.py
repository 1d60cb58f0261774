"""A plain program: callboard runs in a thread of its own, and every method blocks."""

import callboard


def ask(request: callboard.ApprovalRequest) -> bool:
    """Answers what would ask a person; it is called in a worker thread, so it may take its time."""
    print(f"[{request.tool} {request.arguments} is allowed]")
    return True


with callboard.start_in_thread(model="rehearsal", on_approval=ask) as runtime:
    session = runtime.create_session()
    with session.prompt("What time is it in Tokyo? Save it to now.txt.") as turn:
        for event in turn:
            if isinstance(event, callboard.TextDelta):
                print(event.text, end="", flush=True)
            elif isinstance(event, callboard.CallFinished):
                print(f"[{event.name}: {event.status}]")

    print(session.run("Delete the file now.txt."))
    for call in runtime.store.calls(session_id=session.session_id):
        print(f"{call.name}: {call.status}")
