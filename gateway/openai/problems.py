"""Errors as OpenAI's clients expect them.

Those clients send a request again by themselves after 408, 409, 429 and 5xx, and without an idempotency key.
So what fails after its input is on record says `x-should-retry: false`: it would be done twice.
"""

from __future__ import annotations

import msgspec

from ...runtime.errors import CallboardError, NotFoundError, ValidationError
from ...runtime.events import TurnEnded
from ..door.exchange import refusal_of
from ..door.http import JSON, BadHead, Headers, HttpAnswer

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
"""By status; others below 500 are `invalid_request_error`, and those above `server_error`."""

CODES = {
    401: "invalid_api_key",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
}

STATUSES_OF_TURNS = {
    "rate_limit": 429,
    "overloaded": 503,
    "timeout": 504,
    "budget": 429,
}
"""Of turns that were not answered, by the type of their error; others are faults of the server."""

NO_RETRY = (("x-should-retry", "false"),)


class ApiProblem(Exception):
    """A request is refused, or has failed.

    Attributes:
        status: Of HTTP.
        param: The parameter that is wrong.
        code: A word for programs.
        headers: What goes with the answer.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        status: int = 400,
        code: str | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code if code is not None else CODES.get(status)
        self.headers = headers


class ErrorBody(msgspec.Struct):
    """The one object of an answer that is an error."""

    message: str
    type: str
    param: str | None
    code: str | None


def error_body(problem: ApiProblem) -> dict[str, ErrorBody]:
    """Return the body of an error."""
    status = problem.status
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": ErrorBody(str(problem), kind, problem.param, problem.code)}


def answer_of(problem: ApiProblem) -> HttpAnswer:
    """Return an error as an answer."""
    body = msgspec.json.encode(error_body(problem))
    return HttpAnswer(problem.status, body, JSON, headers=problem.headers)


def problem_of(error: BadHead | CallboardError) -> ApiProblem:
    """Return what the door, or the runtime, refused."""
    refusal = error if isinstance(error, BadHead) else refusal_of(error)
    param = error.field if isinstance(error, ValidationError) else None
    code = "not_found" if isinstance(error, NotFoundError) else None
    # After a fault of our own it is not known how far the request came.
    headers = (*refusal.headers, *NO_RETRY) if refusal.status == 500 else refusal.headers
    return ApiProblem(str(error), param, status=refusal.status, code=code, headers=headers)


def no_model(name: str) -> ApiProblem:
    """Return the refusal of a model that there is not, or not for this token."""
    why = f"there is no model {name!r:.200}: models are agents, and GET /v1/models lists them"
    return ApiProblem(why, "model", status=404, code="model_not_found")


def problem_of_end(ended: TurnEnded) -> ApiProblem:
    """Return why a turn has no answer; it was begun, so its request is not to be sent again."""
    kind = ended.error_type or ended.outcome
    status = STATUSES_OF_TURNS.get(kind, 409 if ended.outcome == "cancelled" else 500)
    message = ended.message or f"the turn ended: {ended.outcome}"
    return ApiProblem(message, status=status, code=kind, headers=NO_RETRY)


def gone() -> ApiProblem:
    """Return the refusal of a request that came before, and whose answer is nowhere any more."""
    why = "this request was done before, and its answer was not stored, or was deleted"
    return ApiProblem(why, status=409, code="answer_gone", headers=NO_RETRY)


def late(problem: ApiProblem, headers: Headers) -> HttpAnswer:
    """Return an error of a turn that has begun: its request is not to be sent again."""
    own = tuple(each for each in problem.headers if each not in NO_RETRY)
    problem.headers = (*headers, *own, *NO_RETRY)
    return answer_of(problem)
