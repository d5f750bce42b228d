"""Files for etcd that cannot be used are named before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.storage.etcd.client import EtcdClient
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.interface import StoreUnavailable
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA

URLS = ("https://127.0.0.1:1",)


def _refusal(options: EtcdOptions) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        EtcdClient(options, SystemClock())
    return str(refused.value)


def test_a_file_without_a_certificate_is_no_ca(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("not a certificate\n")
    assert _refusal(EtcdOptions(URLS, cafile=file)) == f"{file}: got no certificate, expected that of etcd's CA in PEM"


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = ThrowawayCA("one")
    certificate, _ = authority.issue("client").write(tmp_path, "client")
    _, key = authority.issue("other").write(tmp_path, "other")
    said = _refusal(EtcdOptions(URLS, certfile=certificate, keyfile=key))
    assert said == f"{key}: got another key, expected that of {certificate}"


@async_test
async def test_a_password_file_that_is_missing_is_not_called_a_pem_file(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing-here"
    said = _refusal(EtcdOptions(("http://127.0.0.1:1",), user="vouch", password_file=nothing))
    assert said == f"{nothing}: no such file or directory, expected the password of etcd's user"
