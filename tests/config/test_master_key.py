"""The master key is in the place that is configured, and looked for nowhere else."""

from __future__ import annotations

import base64
import sys
import types
from pathlib import Path

import pytest

from callboard.config.files import parse_settings
from callboard.config.keys.sealing import KeyBinding, MasterKey, SealError
from callboard.config.keys.store import KeyStore, open_key_store
from callboard.config.settings import KeySettings, MasterSource
from callboard.runtime.errors import AuthError, ValidationError
from callboard.runtime.redaction import Secret

PLACE = ("openai", "https://api.openai.com:443")
KEY = "canary-0b77a1e5"
RAW = bytes(range(32))


def value(store: KeyStore) -> str | None:
    key = store.get(*PLACE)
    return None if key is None else key.reveal()


@pytest.mark.parametrize(
    "text", [RAW, base64.b64encode(RAW), base64.b64encode(RAW) + b"\n", RAW.hex().encode() + b"\n"]
)
def test_a_master_key_may_be_written_in_three_ways(text: bytes) -> None:
    assert MasterKey.parse(text).key_id == MasterKey(RAW).key_id
    assert MasterKey.parse(MasterKey(RAW).text).key_id == MasterKey(RAW).key_id


@pytest.mark.parametrize("text", [b"", b"\n", b"passphrase", RAW + b"x", b"A" * 44, b"\xff" * 64])
def test_what_is_no_master_key_is_refused_without_being_shown(text: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes") as caught:
        MasterKey.parse(text)
    assert "passphrase" not in str(caught.value)


def test_a_master_key_shows_its_id_only() -> None:
    assert repr(MasterKey(RAW)) == f"MasterKey({MasterKey(RAW).key_id})"
    assert MasterKey(RAW).key_id not in RAW.hex()


def test_two_seals_of_one_key_differ_and_another_master_key_opens_neither() -> None:
    binding = KeyBinding(provider="p", origin="https://h:443", name="n", version=1)
    one, two = (MasterKey(RAW).seal(KEY, binding) for _ in range(2))
    assert one.nonce != two.nonce
    assert one.ciphertext != two.ciphertext
    assert MasterKey(RAW).unseal(one, binding) == MasterKey(RAW).unseal(two, binding) == KEY
    with pytest.raises(SealError):
        MasterKey.generate().unseal(one, binding)


def test_the_place_is_a_setting() -> None:
    settings = parse_settings('[keys]\nmaster = "keyring"\n', Path("callboard.toml"))
    assert settings.keys.master is MasterSource.KEYRING
    with pytest.raises(ValidationError, match=r"line 2: keys.master: .*file, keyring, credential"):
        parse_settings('[keys]\nmaster = "stone"\n', Path("callboard.toml"))


# ── a systemd credential ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    folder = tmp_path / "credentials"
    folder.mkdir()
    return folder


def opened(tmp_path: Path, source: MasterSource | None, **environ: str) -> KeyStore:
    home = {"CALLBOARD_HOME": str(tmp_path / "home"), **environ}
    return open_key_store(tmp_path / "home" / "data", KeySettings(master=source), home)


def test_a_credential_is_taken_when_there_is_one(tmp_path: Path, credentials: Path) -> None:
    (credentials / "callboard-key").write_bytes(RAW)
    store = opened(tmp_path, None, CREDENTIALS_DIRECTORY=str(credentials))
    assert store.put(*PLACE, Secret(KEY))[1] is None
    assert value(store) == KEY
    assert not (tmp_path / "home" / "config").exists()
    # Without it nothing falls back to a file: neither reading nor writing.
    store = opened(tmp_path, None)
    with pytest.raises(AuthError, match="locked"):
        store.get(*PLACE)
    with pytest.raises(AuthError, match="locked"):
        store.put(*PLACE, Secret(KEY))
    assert not (tmp_path / "home" / "config").exists()


@pytest.mark.parametrize("environ", [{}, {"CREDENTIALS_DIRECTORY": "/nowhere"}])
def test_a_configured_credential_that_is_missing_is_an_error(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    store = opened(tmp_path, MasterSource.CREDENTIAL, **environ)
    with pytest.raises(AuthError, match="LoadCredentialEncrypted"):
        store.put(*PLACE, Secret(KEY))
    assert not (tmp_path / "home" / "config").exists()


def test_a_credential_that_is_a_link_is_refused(tmp_path: Path, credentials: Path) -> None:
    (credentials / "real").write_bytes(RAW)
    (credentials / "callboard-key").symlink_to("real")
    store = opened(tmp_path, None, CREDENTIALS_DIRECTORY=str(credentials))
    with pytest.raises(AuthError, match="can't be read"):
        store.put(*PLACE, Secret(KEY))


def test_a_credential_is_rotated_by_its_operator(tmp_path: Path, credentials: Path) -> None:
    current, following = credentials / "callboard-key", credentials / "callboard-key-next"
    current.write_bytes(RAW)
    store = opened(tmp_path, MasterSource.CREDENTIAL, CREDENTIALS_DIRECTORY=str(credentials))
    store.put(*PLACE, Secret(KEY))
    with pytest.raises(AuthError, match="add callboard-key-next"):
        store.rotate_master()
    following.write_bytes(MasterKey.generate().text)
    assert store.rotate_master()[0] == 1
    assert value(store) == KEY
    with pytest.raises(AuthError, match="in use already"):
        store.rotate_master()
    following.replace(current)
    assert value(store) == KEY


# ── the system's keyring ─────────────────────────────────────────────────────────────────────────


class KeyringError(Exception):
    """As the library's."""


class Backend:
    """A real keyring, as far as a test needs one."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, user: str) -> str | None:
        if self.is_locked:
            raise KeyringError("locked")
        return self.kept.get((service, user))

    def set_password(self, service: str, user: str, password: str) -> None:
        self.kept[service, user] = password

    def delete_password(self, service: str, user: str) -> None:
        del self.kept[service, user]


def backend_of(module: str) -> Backend:
    kind = type("Keyring", (Backend,), {})
    kind.__module__ = module
    made: Backend = kind()
    return made


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The library, with a desktop's keyring behind it."""
    library, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")
    errors.KeyringError = KeyringError  # type: ignore[attr-defined]
    real = backend_of("keyring.backends.SecretService")
    library.get_keyring = lambda: real  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", library)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return library


def test_the_keyring_keeps_the_master_key(tmp_path: Path, keyring: types.ModuleType) -> None:
    store = opened(tmp_path, MasterSource.KEYRING)
    assert "keyring" in str(store.put(*PLACE, Secret(KEY))[1])
    assert value(store) == KEY
    assert store.rotate_master()[0] == 1
    assert value(store) == KEY
    assert len(keyring.get_keyring().kept) == 1
    assert not (tmp_path / "home" / "config").exists()
    keyring.get_keyring().is_locked = True
    with pytest.raises(AuthError, match="Unlock it"):
        store.get(*PLACE)


@pytest.mark.parametrize(
    "module", ["keyring.backends.fail", "keyring.backends.null", "keyrings.alt.file"]
)
def test_a_keyring_that_is_none_is_refused(
    tmp_path: Path, keyring: types.ModuleType, module: str
) -> None:
    unreal = backend_of(module)
    keyring.get_keyring = lambda: unreal  # type: ignore[attr-defined]
    store = opened(tmp_path, MasterSource.KEYRING)
    with pytest.raises(AuthError, match=f"no real one here .found: {module}"):
        store.put(*PLACE, Secret(KEY))
    assert unreal.kept == {}
    assert not (tmp_path / "home" / "config").exists()


def test_of_several_keyrings_the_first_real_one_is_taken(
    tmp_path: Path, keyring: types.ModuleType
) -> None:
    unreal, real = backend_of("keyrings.alt.file"), backend_of("keyring.backends.kwallet")
    chain = backend_of("keyring.backends.chainer")
    chain.backends = [unreal, real]  # type: ignore[attr-defined]
    keyring.get_keyring = lambda: chain  # type: ignore[attr-defined]
    store = opened(tmp_path, MasterSource.KEYRING)
    store.put(*PLACE, Secret(KEY))
    assert (len(unreal.kept), len(real.kept)) == (0, 1)


def test_a_keyring_that_forgets_is_noticed(tmp_path: Path, keyring: types.ModuleType) -> None:
    keyring.get_keyring().set_password = lambda *_: None
    with pytest.raises(AuthError, match="did not keep"):
        opened(tmp_path, MasterSource.KEYRING).put(*PLACE, Secret(KEY))


def test_without_the_library_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(AuthError, match=r"callboard\[keyring\]"):
        opened(tmp_path, MasterSource.KEYRING).put(*PLACE, Secret(KEY))
