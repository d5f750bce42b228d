"""A certificate authority and TLS servers for the client's tests."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from throwaway_ca import ThrowawayCA, server_context


@pytest.fixture(scope="session")
def ca() -> ThrowawayCA:
    return ThrowawayCA()


@pytest.fixture(scope="session")
def serving(ca: ThrowawayCA, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """The context of a server that the authority vouches for; it asks for a client certificate."""
    folder: Path = tmp_path_factory.mktemp("serving")
    return server_context(ca.issue(), folder, client_ca=ca.bundle)
