"""Long sessions of models with small windows, on servers that behave as Ollama and llama.cpp do."""

from __future__ import annotations

import json

import pytest

import callboard
from callboard.actors.model.compaction import INSTRUCTION
from callboard.config.settings import ProviderSettings
from callboard.providers.testing.script import Step, reply, status
from callboard.providers.testing.scripted_server import ScriptedRequest, open_scripted_server
from callboard.runtime.events import HistoryCompacted, TurnEnded

WINDOW = 4096
RUNS = json.dumps({"models": [{"model": "tiny:latest", "context_length": WINDOW}]}).encode()
SETS = json.dumps({"parameters": f"num_ctx {WINDOW}"}).encode()
TOO_LONG = {
    "error": {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_ctx": WINDOW,
    }
}
TURNS = 8


class SmallModel:
    """Answers at some length, and sums up; says how often a request was longer than its window."""

    def __init__(self, *, refuses: bool, sums_up: bool = True) -> None:
        self.cut = 0
        self._refuses = refuses
        self._sums_up = sums_up

    def __call__(self, request: ScriptedRequest) -> Step:
        messages = request.body["messages"]
        if len(json.dumps(request.body)) > 4 * WINDOW:
            self.cut += 1
            if self._refuses:
                return status(400, TOO_LONG)
            # Ollama keeps the instructions and the last message, and says nothing.
            messages = [messages[0], messages[-1]]
        if messages[0]["content"].startswith(INSTRUCTION[:40]):
            if not self._sums_up:
                return status(400, message="This template takes no such prompt.")
            return reply("Her name is Ada.")
        knows = "Ada" in str(messages[:-1])
        return reply(("Hello, Ada. " if knows else "Hello, stranger. ") + "Tea is a leaf. " * 80)


async def talk(name: str, model: SmallModel, beside: dict[str, bytes]) -> tuple[str, int]:
    """The last answer of a long session, and how often its history was shortened."""
    async with open_scripted_server([model] * 4 * TURNS, models=("tiny",), beside=beside) as server:
        settings = callboard.Settings(
            model=f"{name}/tiny",
            providers={name: ProviderSettings(name=name, base_url=server.base_url)},
        )
        agent = callboard.Agent(name="small", tools=("get_current_time",))
        async with callboard.open_runtime(settings=settings, agents=[agent], environ={}) as runtime:
            session = await runtime.create_session(agent="small")
            answer = await session.run("My name is Ada.")
            for number in range(TURNS):
                answer = await session.run(f"What is tea, for the {number}. time? " + "Hm. " * 400)
            events = [each.event for each in await runtime.store.events(session.session_id)]
    assert all(each.outcome == "answered" for each in events if isinstance(each, TurnEnded))
    return answer, sum(isinstance(each, HistoryCompacted) for each in events)


@pytest.mark.parametrize("beside", [{"/api/ps": RUNS}, {"/api/show": SETS}], ids=["runs", "sets"])
async def test_a_history_is_summed_up_before_ollama_would_cut_it_off(
    beside: dict[str, bytes],
) -> None:
    model = SmallModel(refuses=False)
    answer, shortened = await talk("ollama", model, beside)
    assert answer.startswith("Hello, Ada.")
    assert model.cut == 0
    assert shortened > 1


async def test_where_the_window_is_not_known_the_server_cuts_it_off() -> None:
    model = SmallModel(refuses=False)
    answer, shortened = await talk("other", model, {"/api/ps": RUNS})
    assert answer.startswith("Hello, stranger.")
    assert (shortened, model.cut > 0) == (0, True)


async def test_a_history_is_summed_up_when_llamacpp_refuses_it() -> None:
    model = SmallModel(refuses=True)
    answer, shortened = await talk("llamacpp", model, {})
    assert answer.startswith("Hello, Ada.")
    assert shortened > 0


async def test_a_history_goes_on_without_its_oldest_part_when_the_server_refuses_to_sum_it_up() -> (
    None
):
    answer, shortened = await talk("llamacpp", SmallModel(refuses=True, sums_up=False), {})
    assert answer.startswith("Hello, ")
    assert shortened > 0


@pytest.mark.parametrize(
    ("tools", "prompt", "said", "not_said"),
    [
        (None, "Hello", "tools alone take about", "send less at once"),
        ((), "Hm. " * 5 * WINDOW, "send less at once", "tools alone"),
    ],
    ids=["tools", "prompt"],
)
async def test_what_fills_a_window_that_nothing_fits_in_is_said(
    tools: tuple[str, ...] | None, prompt: str, said: str, not_said: str
) -> None:
    """Who is told to send less, where it is the tools, can send nothing at all."""
    async with open_scripted_server([status(400, TOO_LONG)] * 4, models=("tiny",)) as server:
        settings = callboard.Settings(
            model="llamacpp/tiny",
            providers={"llamacpp": ProviderSettings(name="llamacpp", base_url=server.base_url)},
        )
        agent = callboard.Agent(name="small", tools=tools)
        async with callboard.open_runtime(settings=settings, agents=[agent], environ={}) as runtime:
            session = await runtime.create_session(agent="small")
            with pytest.raises(callboard.ContextOverflow) as caught:
                await session.run(prompt)
    assert said in str(caught.value)
    assert not_said not in str(caught.value)
    assert ("Begin a new session" in str(caught.value)) == (tools is not None)
