"""What ``kubevouch.testing`` offers by name."""

from __future__ import annotations

import pytest

import kubevouch.testing


def test_every_public_name_is_there() -> None:
    for name in kubevouch.testing.__all__:
        assert getattr(kubevouch.testing, name).__module__.startswith("kubevouch.")


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Clusters'"):
        _ = kubevouch.testing.Clusters
