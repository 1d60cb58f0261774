"""The table of methods: each is one typed function, and everything else follows from its types.

A method is registered with its name, the role that it takes, and a function of (caller, parameters). The
parameters and the result are Structs: frames are decoded into them, and `callboard protocol` prints
their schemas.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, TypeVar

import msgspec

from ...config.keys.tokens import Credential
from ...runtime.store.feeds import DoneRequest
from ...runtime.wire.fields import Nothing as Nothing
from ...runtime.wire.fields import Role
from .caller import Caller
from .incoming import strict

Params = TypeVar("Params", bound=msgspec.Struct)
Handler = Callable[[Caller, Params], "Awaitable[Any] | Any"]
"""An `async def`, or a `def` if it never waits."""


Recall = Callable[[Caller, DoneRequest], Awaitable[Any]]
About = Literal[
    "", "session_id", "session_ids", "approval_id", "grant_id", "question_id", "memory_id"
]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """A method of the protocol.

    Attributes:
        name: As on the wire.
        role: What it takes.
        params, result: Their types.
        handler: What does it.
        is_slow: Whether it may take long: later requests of its connection then overtake it.
        is_whole: Whether it is for no token that is limited to agents or sessions.
        recall: What it answers to a request with a key that was done already, when its effect is
            an event.
        is_secret: Whether its answer is a secret, which is kept nowhere: who repeats a request
            is told that it was done, and no more.
        about: The parameter that names the session or sessions, or what is asked in one: in a cluster, the request
            goes to the node that owns it. Empty where any node can answer.
        is_kept: Whether what it gives is kept until the connection of its client ends.
        summary: One line for people.
    """

    name: str
    role: Role
    params: type[msgspec.Struct]
    result: Any
    handler: Callable[[Caller, Any], Any]
    is_slow: bool
    summary: str
    is_whole: bool = False
    recall: Recall | None = None
    is_secret: bool = False
    about: About = ""
    is_kept: bool = False

    def refusal(self, credential: Credential) -> str | None:
        """Why whoever has this credential may not call it; `None` when it may.

        What takes an administrator acts on the whole daemon, tokens included: no token that is
        limited to some of it can do that, or it could make itself one without limits.
        """
        if not credential.role.includes(self.role):
            return f"{self.name} takes the role {self.role}; this token has {credential.role}"
        if (self.is_whole or self.role is Role.ADMIN) and credential.is_limited:
            return f"{self.name} is not for a token that is limited to agents or sessions"
        return None

    async def call(self, caller: Caller, params: msgspec.Struct) -> Any:
        """Have it done, here or by the node that owns the session; return its result, or the JSON of it."""
        relays = caller.daemon.relays
        if relays is None or not self.about or caller.is_relayed:
            return await self.run(caller, params)
        return await relays.call(self, caller, params)

    async def run(self, caller: Caller, params: msgspec.Struct) -> Any:
        """Call the handler and return its result."""
        result = self.handler(caller, params)
        return await result if inspect.isawaitable(result) else result


class MethodTable:
    """Methods by name, in the order in which they were added."""

    def __init__(self) -> None:
        self._methods: dict[str, Method] = {}

    def add(
        self,
        name: str,
        role: Role,
        *,
        is_slow: bool = False,
        is_whole: bool = False,
        recall: Recall | None = None,
        is_secret: bool = False,
        about: About = "",
        is_kept: bool = False,
    ) -> Callable[[Handler[Params]], Handler[Params]]:
        """Register the decorated function; its annotations are the method's types."""

        def register(handler: Handler[Params]) -> Handler[Params]:
            hints = typing.get_type_hints(handler)
            names = list(inspect.signature(handler).parameters)
            if name in self._methods:
                raise ValueError(f"two methods are named {name}")
            self._methods[name] = Method(
                name=name,
                role=role,
                params=strict(hints[names[1]], has_key=role is not Role.OBSERVER),
                result=hints["return"],
                handler=handler,
                is_slow=is_slow,
                summary=(inspect.getdoc(handler) or "").partition("\n")[0],
                is_whole=is_whole,
                recall=recall,
                is_secret=is_secret,
                about=about,
                is_kept=is_kept,
            )
            return handler

        return register

    def get(self, name: str) -> Method | None:
        """Return the method of that name."""
        return self._methods.get(name)

    def __iter__(self) -> Iterator[Method]:
        return iter(self._methods.values())

    def merge(self, other: MethodTable) -> None:
        """Add the methods of another table."""
        for method in other:
            if method.name in self._methods:
                raise ValueError(f"two methods are named {method.name}")
            self._methods[method.name] = method
