"""Three nodes as processes: clients go on when the node that they talk to is killed, and when the owner is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from callboard.client.client import Client, connect
from callboard.config.keys.tokens import Credentials
from callboard.runtime.events import InputAccepted, Stored, TurnEnded
from support.cluster.served import ServedProcess, effects_of, served
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


@contextmanager
def three_nodes(url: str, folder: Path) -> Generator[dict[str, ServedProcess]]:
    (folder / "work").mkdir()
    with ExitStack() as stack:
        yield {node: stack.enter_context(served(url, node, folder)) for node in "abc"}


async def known_everywhere(folder: Path, token: str) -> None:
    files = [Credentials(folder / node) for node in "abc"]
    await until(lambda: all(each.find(token) is not None for each in files))


class Heard:
    """What a client has heard of a session."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []

    async def hear(self, client: Client, session_id: str) -> None:
        async with client.events(session_id, after_seq=0) as events:
            async for event in events:
                if isinstance(event, Stored):
                    self.stored.append(event)

    @property
    def ended(self) -> int:
        return sum(isinstance(each.event, TurnEnded) for each in self.stored)

    def check(self, texts: list[str]) -> None:
        """Nothing is missed, nothing twice, and each prompt is on record once."""
        assert [each.seq for each in self.stored] == list(range(1, len(self.stored) + 1))
        said = [each.event.text for each in self.stored if isinstance(each.event, InputAccepted)]
        assert said == texts


async def test_a_client_goes_on_when_its_node_is_killed_and_when_the_owner_is(
    url: str, tmp_path: Path
) -> None:
    heard, texts = Heard(), list[str]()
    with three_nodes(url, tmp_path) as nodes:
        a, b, c = nodes["a"], nodes["b"], nodes["c"]
        with trio.fail_after(WAIT_SECONDS):
            await known_everywhere(tmp_path, c.token)
            async with connect(c.url, c.token) as at_c:
                session = (await at_c.create_session()).session_id
            async with (
                connect(urls=[a.url, b.url, c.url], token=c.token) as client,
                trio.open_nursery() as nursery,
            ):
                assert [n.node_id for n in client.welcome.nodes if n.is_this] == ["a"]
                nursery.start_soon(heard.hear, client, session)

                async def ask(text: str) -> None:
                    texts.append(text)
                    await client.prompt(session, text)

                await ask("One.")
                await until(lambda: heard.ended == 1)
                await ask("Two.")
                await until(lambda: sum(effects_of(tmp_path).values()) == 2)  # its turn runs at c
                a.kill()
                await ask("Three.")
                await until(lambda: heard.ended == 3)
                assert [n.node_id for n in client.welcome.nodes if n.is_this] == ["b"]
                await ask("Four.")
                await until(lambda: sum(effects_of(tmp_path).values()) == 4)
                c.kill()  # in the middle of a call
                await ask("Five.")
                await until(lambda: heard.ended == 5)
                heard.check(texts)
                assert (await client.session(session)).head_seq == len(heard.stored)
                nursery.cancel_scope.cancel()
    counts = effects_of(tmp_path)
    assert set(counts.values()) == {1}
    assert len(counts) == 5
