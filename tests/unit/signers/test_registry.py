"""signers/registry.py: signers that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.signers.registry import Signers

A: Any = object()
B: Any = object()


def test_signers_come_change_and_go_and_whoever_listens_hears_of_it_afterwards() -> None:
    signers = Signers({"kubernetes.io/fixed": A})
    heard: list[tuple[str, object]] = []
    signers.on_change(lambda name: heard.append((name, signers.get(name))))
    signers.put("example.com/x", A)
    signers.put("example.com/x", A)
    assert "example.com/x" in signers and set(signers) == {"kubernetes.io/fixed", "example.com/x"}
    signers.put("example.com/x", B)
    signers.remove("example.com/x")
    signers.remove("example.com/x")
    assert heard == [("example.com/x", A), ("example.com/x", B), ("example.com/x", None)]
    assert "example.com/x" not in signers and signers.get("example.com/x") is None


def test_nothing_takes_the_name_of_a_signer_that_stays() -> None:
    signers = Signers({"kubernetes.io/fixed": A})
    with pytest.raises(ValueError, match="kubernetes"):
        signers.put("kubernetes.io/fixed", B)
    signers.remove("kubernetes.io/fixed")
    assert signers.get("kubernetes.io/fixed") is A
    assert signers.is_fixed("kubernetes.io/fixed") and not signers.is_fixed("example.com/x")
