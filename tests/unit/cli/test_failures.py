"""What the person at the terminal is told of a failure."""

from __future__ import annotations

from kubevouch.cli.failures import explain
from kubevouch.machinery import errors


def test_a_value_that_cannot_be_read_says_where_its_key_belongs() -> None:
    failure = explain(errors.corrupt_object("/registry/secrets/a/b", "no matching prefix found"))
    assert failure is not None
    assert failure.message.startswith("from server: StorageError: corrupt object")
    assert "--encryption-provider-config" in failure.hint
