"""A web service: one runtime for the app, a session for each conversation, answers that stream.

Run it with `uvicorn fastapi_app:app`, then `curl -N -d '{"prompt": "What time is it?"}'
-H 'content-type: application/json' http://127.0.0.1:8000/sessions/new/prompt`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

import callboard


class Question(BaseModel):
    """What a client asks."""

    prompt: str


class TurnResponse(StreamingResponse):
    """The text of a turn as it comes; a client that hangs up cancels the turn."""

    def __init__(self, session: callboard.aio.Session, prompt: str) -> None:
        self._turn = session.prompt(prompt)
        text = (event.text async for event in self._turn if isinstance(event, callboard.TextDelta))
        headers = {"x-session": session.session_id}
        super().__init__(text, media_type="text/plain", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Enters the turn around everything that the response does."""
        async with self._turn:
            await super().__call__(scope, receive, send)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """One runtime, from the app's start to its end."""
    async with callboard.aio.open_runtime(model="rehearsal") as runtime:
        app.state.runtime = runtime
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/sessions/{session_id}/prompt")
async def prompt(session_id: str, question: Question, request: Request) -> TurnResponse:
    """Streams the answer as plain text; `x-session` says where to ask on."""
    runtime: callboard.aio.Runtime = request.app.state.runtime
    try:
        session = await (
            runtime.create_session() if session_id == "new" else runtime.get_session(session_id)
        )
    except callboard.NotFoundError as error:
        raise HTTPException(404, str(error)) from error
    return TurnResponse(session, question.prompt)
