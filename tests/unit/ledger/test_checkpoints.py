"""ledger/checkpoints.py: signed notes as other transparency logs have them."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kubevouch.ledger import checkpoints
from kubevouch.ledger.checkpoints import CHECKPOINT, HEAD, CheckpointError, checkpoint_of

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
NAME = "kubevouch.io/ledger/0123"
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 600, dt.UTC)

# The example of golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
PETERS_NOTE = (
    PETERS_TEXT
    + "\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def note(size: int = 3, purpose: str = CHECKPOINT) -> str:
    return checkpoints.sign(checkpoint_of(NAME, size, b"r" * 32, purpose, NOW).text(), NAME, KEY)


def test_the_example_of_gos_package() -> None:
    key = checkpoints.parse_key(PETER)
    assert str(key) == PETER and key.hint.hex() == "c74f20a3"
    # Its signature is right, and its text is no checkpoint.
    with pytest.raises(CheckpointError, match="expected an origin, a size, and a root"):
        checkpoints.verified(PETERS_NOTE, key)
    with pytest.raises(CheckpointError, match="is not of this checkpoint"):
        checkpoints.verified(PETERS_NOTE.replace("problem is", "problem was"), key)


def test_a_checkpoint_comes_back() -> None:
    key = checkpoints.verifier_key(NAME, KEY)
    assert checkpoints.parse_key(f" {key}\n") == key
    checkpoint = checkpoints.verified(note(), key)
    assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (NAME, 3, b"r" * 32)
    assert (checkpoint.purpose, checkpoint.at) == (CHECKPOINT, "2026-01-02T03:04:05Z")
    assert checkpoints.verified(note(purpose=HEAD), key).purpose == HEAD
    assert note().splitlines()[:5] == [
        NAME, "3", "cnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=", "checkpoint 2026-01-02T03:04:05Z", "",
    ]  # fmt: skip


def test_other_signatures_do_not_matter() -> None:
    witness = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    line = checkpoints.sign("x\n", "witness", witness).splitlines()[-1]
    assert checkpoints.verified(f"{note()}{line}\n", checkpoints.verifier_key(NAME, KEY)).size == 3
    with pytest.raises(CheckpointError, match="has not signed"):
        checkpoints.verified(note(), checkpoints.verifier_key("witness", witness))
    with pytest.raises(CheckpointError, match="has not signed"):
        checkpoints.verified(note(), checkpoints.verifier_key(NAME, witness))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n3\n", "\n4\n"),
        lambda text: text.replace("cnJy", "cnJz", 1),
        lambda text: text.replace("0123\n3", "0124\n3"),
        lambda text: text.replace("checkpoint ", "head "),
        lambda text: text[:-10] + "\n",
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n\n", "\n"),
        lambda text: "",
        lambda text: "\n\n",
        lambda text: "a\n\nb\n",
        lambda text: text + "trailing\n",
    ],
)
def test_what_was_changed_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CheckpointError):
        checkpoints.verified(change(note()), checkpoints.verifier_key(NAME, KEY))


@pytest.mark.parametrize("size", ["03", "-3", "+3", "3 ", "٣", "9" * 30, "", "0x3"])
def test_a_size_is_a_decimal_number(size: str) -> None:
    text = checkpoint_of(NAME, 3, b"r" * 32, CHECKPOINT, NOW).text().replace("\n3\n", f"\n{size}\n")
    with pytest.raises(CheckpointError):
        checkpoints.verified(checkpoints.sign(text, NAME, KEY), checkpoints.verifier_key(NAME, KEY))


@pytest.mark.parametrize(
    "text", ["", "a", "a+b+c", PETER.replace("c74f", "c74e"), PETER[:-4], PETER.replace("+AR", "+BR")]
)
def test_a_key_is_one_in_full(text: str) -> None:
    with pytest.raises(CheckpointError):
        checkpoints.parse_key(text)
