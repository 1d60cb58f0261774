"""A web app of plain functions: one runtime for the process, a session for each conversation.

Run it with `flask --app flask_app run`, then `curl -d prompt="What time is it?" http://127.0.0.1:5000/sessions/new`.
A view of Django is the same: a plain function that calls the methods of this runtime.
"""

import atexit
from collections.abc import Iterator

from flask import Flask, Response, request
from flask.typing import ResponseReturnValue

import callboard

app = Flask(__name__)
# Its methods block, and any thread may call them: the threads of the server do.
runtime = callboard.start_in_thread(model="rehearsal")
atexit.register(runtime.close)


def session_of(session_id: str) -> callboard.portals.plain.Session:
    """Returns the conversation, or a new one."""
    return runtime.create_session() if session_id == "new" else runtime.get_session(session_id)


@app.post("/sessions/<session_id>")
def ask(session_id: str) -> ResponseReturnValue:
    """Answers when the turn has ended."""
    session = session_of(session_id)
    budget = callboard.Budget(tokens=50_000, seconds=60)
    return {"answer": session.run(request.form["prompt"], budget=budget),
            "session": session.session_id}  # fmt: skip


@app.post("/sessions/<session_id>/stream")
def stream(session_id: str) -> Response:
    """Sends the answer as it comes; a client that hangs up ends the generator, and so the turn."""
    session = session_of(session_id)
    prompt = request.form["prompt"]

    def text() -> Iterator[str]:
        with session.prompt(prompt) as turn:
            for event in turn:
                if isinstance(event, callboard.TextDelta):
                    yield event.text

    return Response(text(), mimetype="text/plain", headers={"x-session": session.session_id})


@app.errorhandler(callboard.CallboardError)
def refused(error: callboard.CallboardError) -> ResponseReturnValue:
    """Says what happened; the messages hold no secrets."""
    statuses = {"not_found": 404, "validation": 400, "conflict": 409, "budget": 429}
    return {"error": error.type, "message": str(error)}, statuses.get(error.type, 502)
