"""A command loads aiohttp without the system's authorities, and everything else still finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.util.clock import SystemClock

_PROGRAM = """
import ssl
from kubevouch.cli.aiohttp_import import load_aiohttp
load_aiohttp()
import aiohttp.connector
told = aiohttp.connector._SSL_CONTEXT_VERIFIED
print(told.verify_mode.name, told.check_hostname, told.cert_store_stats()["x509"])
print(ssl.create_default_context().cert_store_stats()["x509"])
"""


def test_aiohttps_own_contexts_trust_nobody_and_new_ones_the_system(tmp_path: Path) -> None:
    ca = authority.create_authority("system", keys.generate(KeyAlgorithm.ECDSA_P256), now=SystemClock().now())
    file = tmp_path / "ca.crt"
    file.write_bytes(ca.certificate.pem())
    where = os.environ | {"SSL_CERT_FILE": str(file), "SSL_CERT_DIR": str(tmp_path / "none")}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, env=where)
    assert done.stdout.splitlines() == ["CERT_REQUIRED True 0", "1"]
