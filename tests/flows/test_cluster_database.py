"""A cluster whose database is full, has no connection left, asks for TLS, or is being migrated by a newer release."""

from __future__ import annotations

import datetime
import ipaddress
import random
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import callboard
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.errors import CallboardError, StorageError
from callboard.runtime.store.postgres import connection as connection_module
from callboard.runtime.store.postgres import schema
from support.postgres.databases import empty_database
from support.postgres.server import (
    SmallDisk,
    SmallLogDisk,
    needs_postgres,
    own_cluster,
    user_of_server,
)
from support.waits import until

WAIT_SECONDS = 60.0
MORE_THAN_THERE_ARE = 20
"""Connections of a server that takes twelve."""
DISK_BYTES = 64 * 1024 * 1024
"""Twice of what an empty cluster takes."""


LOG_BYTES = 24 * 1024 * 1024
WRITES = 16
"""Of half a megabyte: more than what is left in pieces of the log that are begun or kept."""


@asynccontextmanager
async def opened(
    url: str, node: str, folder: Path, *texts: str
) -> AsyncGenerator[callboard.Runtime]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    cluster = ClusterSettings(node=node, url=f"http://{node}")
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply(text) for text in texts]),
        settings=callboard.Settings(store=StoreSettings(url=url), cluster=cluster),
        workspace=work,
        data=folder / node,
        environ={},
        policy="auto",
    ) as runtime:
        yield runtime


def gaps(url: str) -> int:
    sql = "select 1 from events group by session having count(*) <> max(seq) or min(seq) <> 1"
    with psycopg.connect(url) as connection:
        return len(connection.execute(sql).fetchall())


async def write_on(session: callboard.Session) -> None:
    for _ in range(20):  # what is left in pages that are begun takes some
        await session.run("x" * 500_000)


# ── room ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk() -> Iterator[SmallDisk]:
    needs_postgres()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    server = SmallDisk(folder, DISK_BYTES)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


async def test_a_full_disk_of_the_database_refuses_new_work_and_loses_none(
    small_disk: SmallDisk, tmp_path: Path
) -> None:
    async with (
        opened(small_disk.url, "a", tmp_path, *["Done."] * 50) as a,
        opened(small_disk.url, "b", tmp_path) as b,
    ):
        session = await a.create_session()
        assert await session.run("Begin.") == "Done."
        await trio.to_thread.run_sync(small_disk.fill)
        with pytest.raises(CallboardError, match="There is no room") as refused:
            await write_on(session)
        assert isinstance(refused.value, StorageError)
        before = len(await b.store.events(session.session_id))
        await trio.to_thread.run_sync(small_disk.free)
        same = await a.get_session(session.session_id)
        with trio.fail_after(WAIT_SECONDS):
            assert await same.run("Go on.") == "Done."
        assert len(await b.store.events(session.session_id)) > before
        node = host_of(a).plan.node
        assert node is not None
        assert node.life is not None
        assert node.life.term == 1  # its lease was renewed all the time
    assert gaps(small_disk.url) == 0


@pytest.fixture
def small_log_disk() -> Iterator[SmallLogDisk]:
    needs_postgres()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    server = SmallLogDisk(folder, LOG_BYTES)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


async def test_a_full_disk_of_the_log_ends_the_server_and_all_goes_on_when_it_is_back(
    small_log_disk: SmallLogDisk, tmp_path: Path
) -> None:
    async with (
        opened(small_log_disk.url, "a", tmp_path, *["Done."] * 50) as a,
        opened(small_log_disk.url, "b", tmp_path) as b,
        trio.open_nursery() as nursery,
    ):
        session = await a.create_session()
        assert await session.run("Begin.") == "Done."
        await trio.to_thread.run_sync(small_log_disk.fill)
        written = trio.Event()

        async def write() -> None:
            chance = random.Random(1)
            for _ in range(WRITES):  # of what can't be compressed
                await session.run(chance.randbytes(250_000).hex())
            written.set()

        nursery.start_soon(write)
        nodes = [host_of(each).plan.node for each in (a, b)]
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: all(node is not None and node.away_since for node in nodes))
            assert not written.is_set()
            await trio.to_thread.run_sync(small_log_disk.free)
            await written.wait()
        for node in nodes:
            assert node is not None
            assert node.life is not None
            assert node.life.term == 1  # nobody was fenced meanwhile
        row = await b.store.session(session.session_id)
        assert row is not None
        messages = await b.store.messages(session.session_id)
        assert len(messages) == 2 * (1 + WRITES)
    assert gaps(small_log_disk.url) == 0


# ── connections ──────────────────────────────────────────────────────────────────────────────────


def connections(url: str) -> int:
    """How many there are: the server gives one back some time after it was closed."""
    with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
        found = connection.execute(
            "select count(*) from pg_stat_activity where backend_type = 'client backend'"
        ).fetchone()
        assert found is not None
        return int(found[0])
    return MORE_THAN_THERE_ARE


async def test_a_node_goes_on_with_the_connections_that_it_has_and_a_new_one_is_told(
    tmp_path: Path,
) -> None:
    needs_postgres()
    with own_cluster({"max_connections": "12", "superuser_reserved_connections": "0"}) as server:
        async with opened(server.url, "a", tmp_path, "One.", "Two.", "Three.") as a:
            session = await a.create_session()
            assert await session.run("One?") == "One."
            held: list[psycopg.Connection[tuple[object, ...]]] = []
            try:
                with suppress(psycopg.OperationalError):
                    for _ in range(MORE_THAN_THERE_ARE):
                        # ruff: ignore[manual-list-comprehension] those before the failure count
                        held.append(psycopg.connect(server.url, autocommit=True))
                assert 0 < len(held) < MORE_THAN_THERE_ARE
                assert await session.run("Two?") == "Two."
                with pytest.raises(StorageError, match="has no connection left"):
                    async with opened(server.url, "b", tmp_path):
                        pass
            finally:
                for each in held:
                    each.close()
            await until(lambda: connections(server.url) <= 13 - len(held))  # and its own
            async with opened(server.url, "b", tmp_path):
                assert await session.run("Three?") == "Three."
        assert gaps(server.url) == 0


# ── TCP and TLS ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def certificates() -> Iterator[Path]:
    """A folder that the user of the server may enter."""
    needs_postgres()
    made = Path(tempfile.mkdtemp(prefix="pg-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def write_authority(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Write the certificate of an authority, and one of it with its key for this machine's own addresses."""
    now = datetime.datetime.now(datetime.UTC)

    def made(
        subject: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: str,
        signer: ec.EllipticCurvePrivateKey,
    ) -> x509.Certificate:
        is_authority = subject == issuer
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(signer, hashes.SHA256())
        )

    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root, own, private = (folder / f"{name}.{kind}" for kind in ("root", "crt", "key"))
    encoding = serialization.Encoding.PEM
    root.write_bytes(made(name, root_key, name, root_key).public_bytes(encoding))
    own.write_bytes(made("localhost", key, name, root_key).public_bytes(encoding))
    private.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    private.chmod(0o600)
    if (user := user_of_server()) is not None:
        shutil.chown(private, user)
    return root, own, private


async def test_nodes_reach_a_database_by_tcp_and_tls_and_say_whom_they_do_not_trust(
    tmp_path: Path, certificates: Path
) -> None:
    root, own, key = write_authority(certificates, "ours")
    other, *_ = write_authority(certificates, "theirs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "ssl": "on",
                "ssl_cert_file": str(own), "ssl_key_file": str(key)}  # fmt: skip
    with own_cluster(settings) as server:
        at = f"postgresql://callboard@127.0.0.1:{port}/postgres"
        safe = f"{at}?sslmode=verify-full&sslrootcert={root}"
        async with opened(safe, "a", tmp_path, "One.") as a, opened(at, "b", tmp_path) as b:
            session = await a.create_session()
            assert await session.run("One?") == "One."
            assert await b.store.session(session.session_id) is not None
            secured = (
                "select count(*) from pg_stat_ssl s join pg_stat_activity using (pid) where s.ssl"
            )
            with psycopg.connect(server.url) as connection:
                ((count,),) = connection.execute(secured).fetchall()
            assert count >= 3  # what writes, and the two that a node has besides
        with pytest.raises(StorageError, match="certificate that is not trusted here") as told:
            async with opened(f"{at}?sslmode=verify-full&sslrootcert={other}", "c", tmp_path):
                pass
        assert "sslrootcert" in str(told.value)


# ── a rolling upgrade ────────────────────────────────────────────────────────────────────────────


async def test_nodes_are_upgraded_one_by_one_across_a_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_postgres()
    newer = (*schema.MIGRATIONS, "alter table nodes add column extra bigint not null default 0")
    with empty_database() as url:
        async with opened(url, "b", tmp_path, "By b.", "By b.", "By b.") as old_b:
            async with opened(url, "a", tmp_path, "By a.") as old_a:
                session = await old_a.create_session()
                assert await session.run("One?") == "By a."
            # `a` has ended; it comes back with the newer release, which migrates beside the older `b`.
            with monkeypatch.context() as patched:
                patched.setattr(connection_module, "migrate", partial(schema.migrate, steps=newer))
                async with opened(url, "a", tmp_path, "By new a.", "By new a.") as new_a:
                    other = await old_b.create_session()
                    assert await other.run("Still?") == "By b."  # the older one goes on
                    with psycopg.connect(url) as connection:
                        found = schema.version_of(connection)
                    assert found is not None
                    assert found.steps == len(newer)
                    same = await new_a.get_session(session.session_id)
                    assert await same.run("Two?") == "By new a."
                    node = host_of(new_a).plan.node
                    assert node is not None
                    with trio.fail_after(WAIT_SECONDS):
                        await until(lambda: len(node.members.live) == 2)  # each sees the other
        with pytest.raises(StorageError, match=r"has format \d+, written by callboard .*Install"):
            async with opened(url, "b", tmp_path):
                pass
        assert gaps(url) == 0
