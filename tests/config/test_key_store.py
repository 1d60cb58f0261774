"""Keys at rest: sealed, bound to their place, locked without the right master key."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from callboard.config.keys.master import FilePlace, MasterKeyPlace
from callboard.config.keys.sealing import KeyBinding, MasterKey
from callboard.config.keys.store import KeyStore, open_key_store
from callboard.config.settings import KeySettings, MasterSource
from callboard.runtime.errors import AuthError, CallboardError, NotFoundError, StorageError
from callboard.runtime.redaction import Secret, redact, redactor

OPENAI = ("openai", "https://api.openai.com:443")
GROQ = ("groq", "https://api.groq.com:443")
KEY = "canary-5d1c07b9e4f2"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(data: Path, tmp_path: Path) -> KeyStore:
    return open_key_store(data, KeySettings(), {"CALLBOARD_HOME": str(tmp_path)})


def master_file(tmp_path: Path) -> Path:
    [file] = (tmp_path / "config").glob("master-*.key")
    return file


def value(store: KeyStore, provider: tuple[str, str]) -> str | None:
    key = store.get(*provider)
    return None if key is None else key.reveal()


def execute(store: KeyStore, sql: str, *values: object) -> None:
    connection = apsw.Connection(str(store.path))
    connection.execute(sql, values)
    connection.close()


def test_a_stored_key_comes_back_for_its_own_origin_only(store: KeyStore) -> None:
    assert store.rows() == []
    assert store.get(*OPENAI) is None
    row, place = store.put(*OPENAI, Secret(KEY))
    assert place is not None
    assert row.binding == KeyBinding(
        provider=OPENAI[0], origin=OPENAI[1], name="api_key", version=1
    )
    assert value(store, OPENAI) == KEY
    for other in (
        ("openai", "https://evil.example:443"),
        ("openai", "http://api.openai.com:80"),
        ("groq", OPENAI[1]),
    ):
        assert store.get(*other) is None
    assert [row.binding.provider for row in store.rows()] == ["openai"]


def test_a_key_that_is_set_again_replaces_the_first(store: KeyStore) -> None:
    store.put(*OPENAI, Secret("first-key"))
    row, place = store.put(*OPENAI, Secret("second-key"))
    assert (row.binding.version, place) == (2, None)
    assert value(store, OPENAI) == "second-key"
    assert len(store.rows()) == 1


def test_a_removed_key_is_gone(store: KeyStore) -> None:
    assert store.remove("openai") == []
    for origin in ("https://a:443", "https://b:443"):
        store.put("openai", origin, Secret(KEY))
    store.put(*GROQ, Secret(KEY))
    assert [row.binding.origin for row in store.remove("openai", "https://a:443")] == [
        "https://a:443"
    ]
    assert len(store.remove("openai")) == 1
    assert [row.binding.provider for row in store.rows()] == ["groq"]


def test_nothing_readable_is_on_disk_and_everything_is_the_owners_alone(
    store: KeyStore, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        store.put(*OPENAI, Secret(KEY))
        old = store.rows()[0].sealed.ciphertext
        store.put(*OPENAI, Secret(KEY))
        store.rotate_master()
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"keys.db", "keys.lock", master_file(tmp_path).name}
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert KEY.encode() not in file.read_bytes()
        assert old not in file.read_bytes()  # what was replaced is zeroed
    for folder in (tmp_path / "data", tmp_path / "config"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_opened_key_is_masked_from_then_on(store: KeyStore) -> None:
    secret = Secret("unheard-of-value")
    store.put(*OPENAI, secret)
    redactor.discard(secret)
    assert redact("unheard-of-value") == "unheard-of-value"
    store.get(*OPENAI)
    assert redact("unheard-of-value") == "***"


@pytest.mark.parametrize(
    "change",
    [
        "update keys set provider = 'openai' where provider = 'groq'",
        "update keys set origin = 'https://evil.example:443'",
        "update keys set version = version + 1",
        "update keys set name = 'other'",
        "update keys set nonce = zeroblob(12)",
        "update keys set nonce = x'00'",
        "update keys set ciphertext = zeroblob(length(ciphertext))",
        "update keys set ciphertext = x''",
    ],
)
def test_a_row_that_was_swapped_or_changed_does_not_open(store: KeyStore, change: str) -> None:
    store.put(*GROQ, Secret(KEY))
    assert value(store, GROQ) == KEY
    execute(store, change)
    [row] = store.rows()
    with pytest.raises(AuthError, match="does not open") as caught:
        store.get(row.binding.provider, row.binding.origin, row.binding.name)
    assert KEY not in str(caught.value)
    with pytest.raises(AuthError, match="does not open"):
        store.rotate_master()
    store.put(row.binding.provider, row.binding.origin, Secret(KEY))
    assert value(store, (row.binding.provider, row.binding.origin)) == KEY


def test_one_providers_ciphertext_does_not_open_as_anothers(store: KeyStore) -> None:
    store.put(*GROQ, Secret("groq-key"))
    store.put(*OPENAI, Secret(KEY))
    execute(
        store,
        "update keys set (nonce, ciphertext) = (select nonce, ciphertext from keys "
        "where provider = 'openai') where provider = 'groq'",
    )
    with pytest.raises(AuthError, match="groq"):
        store.get(*GROQ)
    assert value(store, OPENAI) == KEY


def lost(file: Path) -> None:
    file.unlink()


def another(file: Path) -> None:
    file.write_bytes(MasterKey.generate().text)


def garbage(file: Path) -> None:
    file.write_bytes(b"not a key\n")


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def open_to_others(file: Path) -> None:
    file.chmod(0o640)


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def huge(file: Path) -> None:
    file.write_bytes(b"x" * 10_000)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lost, "is not there"),
        (another, "holds another master key"),
        (garbage, "holds no master key"),
        (link, "symbolic link"),
        (open_to_others, "open to others: chmod 600"),
        (a_pipe, "not a plain file"),
        (huge, "bytes"),
    ],
)
def test_without_its_master_key_a_store_is_locked(
    store: KeyStore, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    store.put(*OPENAI, Secret(KEY))
    assert store.why_locked() is None
    file = master_file(tmp_path)
    spoil(file)
    with pytest.raises(AuthError, match=f"locked: .*{said}"):
        store.get(*OPENAI)
    with pytest.raises(AuthError, match="locked"):
        store.put(*GROQ, Secret(KEY))
    with pytest.raises(AuthError, match="locked"):
        store.rotate_master()
    assert said in str(store.why_locked())
    # Who has a key can still be seen, other providers still have none, and what can't be opened
    # can be thrown away.
    assert [row.binding.provider for row in store.rows()] == ["openai"]
    assert store.get(*GROQ) is None
    assert len(store.remove("openai")) == 1
    assert store.why_locked() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_master_key_of_somebody_else_is_refused(store: KeyStore, tmp_path: Path) -> None:
    store.put(*OPENAI, Secret(KEY))
    os.chown(master_file(tmp_path), 65534, 65534)
    with pytest.raises(AuthError, match="belongs to user 65534"):
        store.get(*OPENAI)


def test_an_empty_store_takes_a_new_master_key(store: KeyStore, tmp_path: Path) -> None:
    store.put(*OPENAI, Secret(KEY))
    store.remove("openai")
    master_file(tmp_path).unlink()
    assert store.put(*OPENAI, Secret(KEY))[1] == str(master_file(tmp_path))
    assert value(store, OPENAI) == KEY


def test_the_master_key_lies_apart_from_the_data(tmp_path: Path) -> None:
    home = {"CALLBOARD_HOME": str(tmp_path)}
    (tmp_path / "link").symlink_to(tmp_path)
    for data in (tmp_path, tmp_path / "config", tmp_path / "link"):
        store = open_key_store(data, KeySettings(master=MasterSource.FILE), home)
        with pytest.raises(AuthError, match=r"inside the data folder .*keyring"):
            store.put(*OPENAI, Secret(KEY))
    assert list(tmp_path.rglob("master-*")) == []


def test_two_data_folders_have_a_master_key_each(tmp_path: Path) -> None:
    home = {"CALLBOARD_HOME": str(tmp_path)}
    one, two = (open_key_store(tmp_path / name, KeySettings(), home) for name in ("one", "two"))
    one.put(*OPENAI, Secret("first-key"))
    two.put(*OPENAI, Secret("second-key"))
    two.rotate_master()
    assert (value(one, OPENAI), value(two, OPENAI)) == ("first-key", "second-key")


def test_a_file_that_is_no_store_of_keys_is_left_as_it_is(store: KeyStore, data: Path) -> None:
    data.mkdir()
    store.path.write_bytes(b"something else, which is no database at all" * 100)
    for use in (store.rows, store.rotate_master, lambda: store.put(*OPENAI, Secret(KEY))):
        with pytest.raises(StorageError, match=r"keys\.db"):
            use()
    assert store.path.read_bytes().startswith(b"something else")
    store.path.unlink()
    store.path.symlink_to("elsewhere.db")
    with pytest.raises(StorageError):
        store.put(*OPENAI, Secret(KEY))
    assert not (data / "elsewhere.db").exists()
    store.path.unlink()
    store.put(*OPENAI, Secret(KEY))
    execute(store, "pragma user_version = 99")
    with pytest.raises(StorageError, match="newer callboard"):
        store.get(*OPENAI)
    execute(store, "pragma user_version = 1")
    execute(store, "update store set store_id = '../../x'")
    with pytest.raises(StorageError, match="damaged"):
        store.get(*OPENAI)


def test_a_store_whose_making_was_cut_off_is_made_again(store: KeyStore, data: Path) -> None:
    data.mkdir()
    for name in ("keys.db.new", "keys.db.new-journal"):
        (data / name).write_bytes(b"half")
    store.put(*OPENAI, Secret(KEY))
    assert value(store, OPENAI) == KEY


# ── rotation ─────────────────────────────────────────────────────────────────────────────────────


class CutOff(BaseException):
    """As a crash ends it: nobody catches this."""


class CrashingPlace(FilePlace):
    """A place at which the process dies before or after one step."""

    at = ""

    def begin(self) -> MasterKey:
        self._crash("before begin")
        key = super().begin()
        self._crash("after begin")
        return key

    def finish(self) -> None:
        self._crash("before finish")
        super().finish()
        self._crash("after finish")

    def _crash(self, where: str) -> None:
        if where == self.at:
            raise CutOff


def place_of(data: Path, tmp_path: Path) -> Callable[[str], MasterKeyPlace]:
    return lambda store_id: FilePlace(tmp_path / "config", data, store_id)


def test_a_rotation_seals_every_key_anew(store: KeyStore, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no stored keys"):
        store.rotate_master()
    store.put(*OPENAI, Secret(KEY))
    store.put(*GROQ, Secret("groq-key"))
    before, master = store.rows(), master_file(tmp_path).read_bytes()
    assert store.rotate_master() == (2, str(master_file(tmp_path)))
    assert master_file(tmp_path).read_bytes() != master
    for old, new in zip(before, store.rows(), strict=True):
        assert old.binding == new.binding
        assert old.sealed.key_id != new.sealed.key_id
        assert old.sealed.ciphertext != new.sealed.ciphertext
    assert (value(store, OPENAI), value(store, GROQ)) == (KEY, "groq-key")


@pytest.mark.parametrize(
    "at", ["before begin", "after begin", "before finish", "after finish", "commit"]
)
def test_a_rotation_that_is_cut_off_anywhere_leaves_a_store_that_opens(
    store: KeyStore, data: Path, tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(*OPENAI, Secret(KEY))
    dying = KeyStore(data, lambda store_id: CrashingPlace(tmp_path / "config", data, store_id))
    monkeypatch.setattr(CrashingPlace, "at", at)

    def cut_off(*_: object) -> None:
        raise CutOff

    with monkeypatch.context() as patch:
        if at == "commit":
            patch.setattr("callboard.config.keys.store._set_active", cut_off)
        with pytest.raises(CutOff):
            dying.rotate_master()
    assert value(store, OPENAI) == KEY
    assert store.why_locked() is None
    store.put(*GROQ, Secret("groq-key"))  # with whichever key the other rows have
    assert value(store, OPENAI) == KEY
    store.rotate_master()
    assert (value(store, OPENAI), value(store, GROQ)) == (KEY, "groq-key")
    assert len(list((tmp_path / "config").iterdir())) == 1


def test_a_reader_that_a_rotation_overtakes_looks_again(
    store: KeyStore, data: Path, tmp_path: Path
) -> None:
    class OvertakenPlace(FilePlace):
        """A rotation begins and ends between the reading of the row and of the master key."""

        def keys(self) -> list[MasterKey]:
            if not overtaken:
                overtaken.append(store.rotate_master())
            return super().keys()

    overtaken: list[object] = []
    store.put(*OPENAI, Secret(KEY))
    reader = KeyStore(data, lambda i: OvertakenPlace(tmp_path / "config", data, i))
    assert value(reader, OPENAI) == KEY
    assert len(overtaken) == 1


def test_writers_at_once_lose_no_key(store: KeyStore) -> None:
    store.put("p0", "https://h:443", Secret("key-number-0"))
    errors: list[CallboardError] = []

    def work(number: int) -> None:
        try:
            store.put(f"p{number}", "https://h:443", Secret(f"key-number-{number}"))
            store.rotate_master()
        except CallboardError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for number in range(7):
        assert value(store, (f"p{number}", "https://h:443")) == f"key-number-{number}"
