"""Whether a kubeconfig on disk still is a credential, and why not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kubevouch.agent.bootstrap_state import judge_kubeconfig
from kubevouch.config import kubeconfig as files
from kubevouch.config.kubeconfig import User
from kubevouch.phases import kubeconfig
from kubevouch.pki import keys
from kubevouch.pki.authority import LEAF_VALIDITY, create_authority
from kubevouch.pki.control_plane import kubelet
from kubevouch.pki.keys import KeyAlgorithm

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SERVER = "https://192.0.2.10:6443"
ALGORITHM = KeyAlgorithm.ECDSA_P256
CA = create_authority("kubernetes", keys.generate(ALGORITHM), now=NOW)
TEXT = kubeconfig.client_kubeconfig(SERVER, CA, kubelet("n"), now=NOW, algorithm=ALGORITHM)
OTHER_KEY = keys.to_pem(keys.generate(ALGORITHM))


def with_user(change: Callable[[User], User]) -> str:
    config = files.load(TEXT)
    users = {name: change(user) for name, user in config.users.items()}
    return files.dump(msgspec.structs.replace(config, users=users))


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert judge_kubeconfig(tmp_path / "kubelet.conf", NOW) is None


def test_a_file_that_cannot_be_read_is_no_reason_to_replace_it(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        judge_kubeconfig(tmp_path, NOW)


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (NOW, ""),
        (NOW - dt.timedelta(days=30), ""),
        (NOW + LEAF_VALIDITY, ""),
        (
            NOW + LEAF_VALIDITY + dt.timedelta(seconds=1),
            "its client certificate has expired at 2027-01-01T00:00:00Z",
        ),
    ],
    ids=["now", "before it begins", "in its last second", "after its end"],
)
def test_a_certificate_counts_until_its_end(tmp_path: Path, now: dt.datetime, problem: str) -> None:
    path = tmp_path / "kubelet.conf"
    path.write_text(TEXT)
    state = judge_kubeconfig(path, now)
    assert state is not None
    assert (state.problem, state.server) == (problem, SERVER)
    assert [leaf.subject.common_name for leaf in state.chain] == ["system:node:n"]
    assert state.certificate_authority_data.startswith(b"-----BEGIN CERTIFICATE-----")


def test_files_are_found_beside_it(tmp_path: Path) -> None:
    [user] = files.load(TEXT).users.values()
    (tmp_path / "pair.pem").write_bytes(user.client_certificate_data + user.client_key_data)
    path = tmp_path / "kubelet.conf"
    named = User(client_certificate="pair.pem", client_key=str(tmp_path / "pair.pem"))
    path.write_text(with_user(lambda _user: named))
    state = judge_kubeconfig(path, NOW)
    assert state is not None
    assert state.problem == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is no usable kubeconfig: its current context names no cluster and user"),
        ("[]", "it is no usable kubeconfig: a kubeconfig is a mapping"),
        (TEXT.replace("user: system:node:n", "user: someone"),
         "it is no usable kubeconfig: its current context names no cluster and user"),
        (with_user(lambda _user: User(token="t")), "it has no client certificate"),
        (
            with_user(lambda user: msgspec.structs.replace(user, client_key_data=OTHER_KEY)),
            "its client certificate cannot be used: tls: private key does not match public key",
        ),
        (
            with_user(lambda user: msgspec.structs.replace(user, client_key_data=b"")),
            "its client certificate cannot be used: tls: failed to find any PEM data in key input",
        ),
        (
            with_user(lambda _user: User(client_certificate="absent.pem")),
            "{folder}/absent.pem cannot be read: No such file or directory",
        ),
    ],
)  # fmt: skip
def test_what_is_no_credential(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "kubelet.conf"
    path.write_text(text)
    state = judge_kubeconfig(path, NOW)
    assert state is not None
    assert state.problem == problem.format(folder=tmp_path)
    assert state.chain == ()
