"""Who may write beside our files gets no key adopted, no file of others overwritten, and none of ours read."""

from __future__ import annotations

import ast
import datetime as dt
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import aio
import kubevouch
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import CertificateStoreError
from kubevouch.agent.recovery_keys import RecoveryKeys
from kubevouch.phases.certificates import certs
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.pki import keys
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.server.audit.log_file import RotatingFile
from kubevouch.server.audit.options import LogFileOptions
from kubevouch.storage.interface import StoreUnavailable
from kubevouch.storage.sqlite import files as store_files
from kubevouch.storage.sqlite.store import SQLiteStore
from kubevouch.util import files
from kubevouch.util.files import UnsafeFileError
from processes import kubevouch as command

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOBODY = 65534
# Only root can give a file to somebody else; CI runs as root.
AS_ROOT = os.geteuid() == 0


def symlink(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def of_somebody_else(path: Path, victim: Path) -> None:
    path.touch(0o666)
    os.chown(path, NOBODY, NOBODY)


PLANTED = [symlink, hard_link, pipe, *([of_somebody_else] if AS_ROOT else [])]
Plant = Callable[[Path, Path], None]


def lock(path: Path) -> None:
    with files.locked(path):
        pass


def lock_store(path: Path) -> None:
    store_files.Lock(path.with_name(path.name.removesuffix(".lock"))).release()


def log_audit(path: Path) -> None:
    log = RotatingFile(LogFileOptions(path=str(path)), lambda: NOW)
    log.write(b"event\n")
    log.close()


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("work", [lock, lock_store])
def test_a_lock_file_that_somebody_planted(tmp_path: Path, plant: Plant, work: Callable[[Path], None]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "store.db.lock"
    plant(path, victim)
    with pytest.raises((UnsafeFileError, StoreUnavailable), match=r"got .*, expected "):
        work(path)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("plant", [plant for plant in PLANTED if plant is not hard_link])
def test_an_audit_log_that_somebody_planted(tmp_path: Path, plant: Plant) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    plant(tmp_path / "audit.log", victim)
    with pytest.raises(UnsafeFileError):
        log_audit(tmp_path / "audit.log")
    assert victim.read_text() == "precious"


def test_what_is_written_whole_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "key").symlink_to(victim)
    files.write_atomically(tmp_path / "key", b"new")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "key").is_symlink()


def test_up_says_what_stands_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "cluster/kubevouch.lock").symlink_to(tmp_path / "victim")
    refused = command("up", "--data-dir", "cluster", "--secure-port", "0", cwd=tmp_path)
    assert refused.code == 2
    assert "got a symbolic link, expected a file" in refused.stderr
    assert "hint: look who has put it there, and remove cluster/kubevouch.lock" in refused.stderr
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--data-dir", ".", "--secure-port", "0"), ("store", "verify", "kubevouch.db"),
        ("store", "accept-loss", "--yes", "kubevouch.db"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_store_says_once_what_stands_in_its_way(words: tuple[str, ...], tmp_path: Path) -> None:
    make_store(tmp_path)
    (tmp_path / "kubevouch.db.lock").unlink()
    (tmp_path / "kubevouch.db.lock").symlink_to(tmp_path / "victim")
    refused = command(*words, cwd=tmp_path)
    assert refused.code == 1
    assert ": got a symbolic link, expected a file at " in refused.stderr
    assert refused.stderr.count("got ") == refused.stderr.count("expected ") == 1
    assert "look who has put it there, and remove " in refused.stderr


def make_store(folder: Path) -> None:
    """Leaves a whole store, at rest."""

    async def make() -> None:
        await (await SQLiteStore.open(folder / "kubevouch.db")).close()

    aio.run(make())


def readable(path: Path) -> None:
    path.chmod(0o644)


def given_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


LOOSE = [pytest.param(readable, "got the mode 0644, expected 0600", id="readable")]
if AS_ROOT:
    LOOSE.append(pytest.param(given_away, f"got a file of user {NOBODY}, expected one of", id="somebody else's"))
loose = pytest.mark.parametrize(("spoil", "reason"), LOOSE)
Spoil = Callable[[Path], None]


def control_plane_in(folder: Path) -> certs.ControlPlanePKI:
    return certs.ensure_control_plane(
        folder, ControlPlaneNames(node_name="a", advertise_address="127.0.0.1"), now=NOW,
        algorithm=KeyAlgorithm.ECDSA_P256,
    )  # fmt: skip


@loose
@pytest.mark.parametrize("name", ["ca", "front-proxy-ca", "sa"])
def test_a_planted_key_of_an_authority_is_refused(tmp_path: Path, name: str, spoil: Spoil, reason: str) -> None:
    control_plane_in(tmp_path)
    spoil(tmp_path / f"{name}.key")
    with pytest.raises(CertsError, match=reason) as caught:
        certs.load_service_account_key(control_plane_in(tmp_path).service_account)
    assert str(tmp_path / f"{name}.key") in str(caught.value)
    assert "if " in caught.value.hint


@loose
def test_a_planted_key_of_a_server_is_replaced(tmp_path: Path, spoil: Spoil, reason: str) -> None:
    pair = control_plane_in(tmp_path).apiserver
    before = pair.key.read_bytes()
    spoil(pair.key)
    control_plane_in(tmp_path)
    assert pair.key.read_bytes() != before
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600


@loose
def test_a_planted_key_of_a_node_is_not_used(tmp_path: Path, spoil: Spoil, reason: str) -> None:
    store = CertificateStore(tmp_path)
    planted = keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256))
    files.write_new(store.pending_key_path, planted)
    spoil(store.pending_key_path)
    with pytest.raises(CertificateStoreError, match=reason):
        aio.run(store.pending_key())
    assert any(store.pending_key_path.name in said for said in store.repair(lambda _: True, now=NOW))
    key, made = aio.run(store.pending_key())
    assert made
    assert keys.to_pem(key) != planted


@loose
def test_a_planted_recovery_key_is_refused(tmp_path: Path, spoil: Spoil, reason: str) -> None:
    kept = RecoveryKeys(tmp_path)
    kept.ensure()
    spoil(kept.path)
    with pytest.raises(CertificateStoreError, match=reason):
        kept.ensure()


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_modes_do_not_follow_the_umask(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        files.make_folder(tmp_path / "a/b/private", files.PRIVATE_FOLDER)
        control_plane_in(tmp_path / "c/pki")
        lock(tmp_path / "lock")
        log_audit(tmp_path / "audit.log")
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "a", *tmp_path.rglob("*"))
    }
    assert (modes["a"], modes["a/b"], modes["a/b/private"], modes["c"], modes["c/pki"]) == (
        0o755, 0o755, 0o700, 0o755, 0o755,
    )  # fmt: skip
    for name, mode in modes.items():
        if not (tmp_path / name).is_dir():
            assert mode == (0o644 if name.endswith(".crt") else 0o600), name


# What makes or changes files, by the last part of its name. Reading is free.
WRITING = {
    "write_text", "write_bytes", "touch", "mkdir", "makedirs", "chmod", "fchmod", "lchmod", "hardlink_to", "mkfifo",
    "mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile", "copy2", "copyfile", "copytree",
}  # fmt: skip
WRITING_MODE = re.compile(r"[rwaxbt]*[wax+][bt+]*")
# Of other things than files, or of what nobody else sees.
ALLOWED = {
    "util/files.py": "the one place",
    "attestation/tpm/device.py": "a TPM's device, which is there",
    "cli/main.py": "/dev/null",
    "client/tls.py": "a pair for OpenSSL, which takes it from a file only; private, and gone at once",
    "util/loop_monitor.py": "reads",
    "util/unix_sockets.py": "a socket, and a folder as the address of one in it",
}


def written(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name in ("os.open", "shutil.copy", "shutil.move") or last in WRITING:
            yield f"{node.lineno}: {name}"
        modes = [arg.value for arg in (*node.args, *(k.value for k in node.keywords)) if isinstance(arg, ast.Constant)]
        if last == "open" and any(
            isinstance(mode, str) and set(mode) & set("wax+") and len(mode) <= 3 for mode in modes
        ):
            yield f"{node.lineno}: {name}"


def test_files_are_written_in_one_place() -> None:
    """A second place would have its own idea of links, modes and what is durable."""
    source = Path(kubevouch.__file__).parent
    found = {}
    for path in sorted(source.rglob("*.py")):
        name = str(path.relative_to(source))
        calls = list(written(ast.parse(path.read_text())))
        if calls and name not in ALLOWED:
            found[name] = calls
    assert found == {}
