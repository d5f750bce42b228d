"""S16: the PIN of an HSM's token stands in no error and no log line, wherever an operator has put it by mistake."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from kubevouch.pki.errors import PKIError
from kubevouch.signers import pkcs11
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import SignerError
from kubevouch.signers.keys import KeyOptions
from kubevouch.testing.logs import capture_logs
from kubevouch.util.redact import HIDDEN, redact_text
from softhsm import PIN, SoftHSM

URI = "pkcs11:token=ca;object=p256"
MISPLACED = [
    f"{URI}?pin-value={PIN}",
    f"{URI};pin-value={PIN}",
    f"{URI}?pin-value={PIN}%zz",
    f"{URI.upper()}?PIN-VALUE={PIN}",
    f" {URI}?pin-value={PIN}",
    f"/{URI}?pin-value={PIN}",
    f"file:{URI}?Pin-Value={PIN}",
    f"{URI}?pin-source={PIN}",
    f"{URI}?pin-source=file:{PIN}",
    f"{URI}?pin-source=|echo {PIN}",
    f"{URI}?{PIN}=x",
    f"{URI};{PIN}",
]
"""What ended up in an error line of ``kubevouch up``, or might."""
FILES = {
    "wrong": f"wrong-{PIN}".encode(),
    "long": f"{PIN}{PIN * 2000}".encode(),
    "not UTF-8": PIN.encode() + b"\xff",
    "with a NUL": PIN.encode() + b"\0x",
    "two lines": f"x\n{PIN}\n".encode(),
}


def shown(err: BaseException) -> str:
    """The error and all that caused it, as a traceback has them: only lines of values, not of this file."""
    return "".join("".join(traceback.format_exception_only(each)) for each in _causes(err))


def _causes(err: BaseException | None) -> list[BaseException]:
    return [] if err is None else [err, *_causes(err.__cause__), *_causes(err.__context__)]


def tried(softhsm: SoftHSM, folder: Path, uri: str, pin: Path | None = None) -> str:
    """All that is said when a signer with this location is made."""
    certificate = folder / "ca.crt"
    certificate.write_bytes(softhsm.authorities["p256"].certificate.pem())
    # A process logs in once, for all that it does with a token.
    module = pkcs11.module(str(softhsm.module))
    module.restart(module.generation)
    options = KeyOptions(pkcs11_module=str(softhsm.module), pkcs11_pin_file="" if pin is None else str(pin))
    with capture_logs() as lines, pytest.raises((PKIError, SignerError)) as caught:
        FileSigner(certificate, uri, keys=options)
    return shown(caught.value) + repr(lines)


@pytest.mark.parametrize("uri", MISPLACED)
def test_a_pin_in_a_uri_is_not_repeated(softhsm: SoftHSM, tmp_path: Path, uri: str) -> None:
    assert PIN not in tried(softhsm, tmp_path, uri)


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_pin_that_cannot_be_used_is_not_repeated(softhsm: SoftHSM, tmp_path: Path, content: bytes) -> None:
    pin = tmp_path / "pin"
    pin.write_bytes(content)
    pin.chmod(0o600)
    assert PIN not in tried(softhsm, tmp_path, URI, pin)


def test_a_file_of_a_pin_is_named_where_it_is_missing(softhsm: SoftHSM, tmp_path: Path) -> None:
    assert f"the PIN in {tmp_path / 'pin'} cannot be read" in tried(softhsm, tmp_path, URI, tmp_path / "pin")


def test_a_log_hides_a_pin_in_a_uri() -> None:
    assert (
        redact_text(f"open {URI}?pin-value={PIN}&module-path=/m.so")
        == f"open {URI}?pin-value={HIDDEN}&module-path=/m.so"
    )
