from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.coordination_v1 import Lease, LeaseSpec, drop_disabled_fields, validate_lease, validate_lease_update
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import MicroTime


def lease(**fields: Any) -> Lease:
    return Lease(spec=LeaseSpec(**fields))


def test_json_has_six_decimals() -> None:
    written = json_codec.encode(lease(holder_identity="", acquire_time=MicroTime(1), lease_transitions=0))
    assert written == (
        b'{"metadata":{},"spec":{"holderIdentity":"","acquireTime":"1970-01-01T00:00:00.000001Z","leaseTransitions":0}}'
    )


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, []),
        ({"lease_duration_seconds": 1, "lease_transitions": 0}, []),
        (
            {"lease_duration_seconds": 0, "lease_transitions": -1},
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"preferred_holder": "x", "strategy": ""},
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
        ),
    ],
)
def test_spec(fields: dict[str, Any], texts: list[str]) -> None:
    assert [str(error) for error in validate_lease(lease(**fields))] == texts
    assert [str(error) for error in validate_lease_update(lease(**fields), Lease())] == texts


def test_fields_of_a_feature_that_is_off() -> None:
    new = lease(holder_identity="h", strategy="s", preferred_holder="p")
    assert drop_disabled_fields(new) == lease(holder_identity="h")
    assert drop_disabled_fields(new, Lease()) == lease(holder_identity="h")
    assert drop_disabled_fields(new, lease(strategy="s")) is new
    plain = lease(holder_identity="h")
    assert drop_disabled_fields(plain) is plain
