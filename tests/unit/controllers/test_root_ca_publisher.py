"""controllers/root_ca_publisher.py: the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller_world import fixture
from kubevouch.controllers.root_ca_publisher import RootCAError, RootCAFile
from kubevouch.testing.logs import capture_logs


def test_what_is_no_bundle_does_not_replace_one(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(fixture("root-bundle.crt"))
    bundle = RootCAFile(path)
    path.write_bytes(b"not yet")
    with capture_logs() as logs:
        assert bundle() == fixture("root-bundle.crt").decode()
    assert [line["event"] for line in logs] == ["the root CA bundle is not taken over"]
    path.write_bytes(fixture("ca-ec.crt"))
    assert bundle() == fixture("ca-ec.crt").decode()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RootCAError, match="error parsing root-ca-file at"):
        RootCAFile(tmp_path / "no.crt")
