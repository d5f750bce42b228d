"""Kubernetes' order of API versions."""

from __future__ import annotations

from kubevouch.machinery.text.versions import version_priority


def test_the_order_is_that_of_kubernetes() -> None:
    names = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert sorted(set(names), key=version_priority, reverse=True) == names
