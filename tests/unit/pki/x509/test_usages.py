from __future__ import annotations

import pytest

from kubevouch.pki.errors import UsageError
from kubevouch.pki.x509 import usages


def test_the_closed_set() -> None:
    assert len(usages.ALL) == 23
    assert usages.ALL[:2] == ("any", "cert sign")
    assert usages.ALL[-1] == "timestamping"


def test_synonyms_and_order() -> None:
    found = usages.resolve(["timestamping", "s/mime", "email protection", "any", "signing", "digital signature"])
    assert found.key_usage == {0}
    assert found.extended == ("2.5.29.37.0", "1.3.6.1.5.5.7.3.4", "1.3.6.1.5.5.7.3.8")
    assert usages.resolve(["client auth"]).encode_extended().hex() == "300a06082b06010505070302"


def test_unknown_usages_are_all_named() -> None:
    with pytest.raises(UsageError) as refusal:
        usages.resolve(["x", "client auth", 'y"', "Client Auth"])
    assert str(refusal.value) == 'unrecognized usage values: ["x" "y\\"" "Client Auth"]'


def test_what_kubelets_ask_for() -> None:
    assert usages.usages_for_key("client auth", rsa=False) == ("digital signature", "client auth")
    assert usages.usages_for_key("server auth", rsa=True) == ("digital signature", "key encipherment", "server auth")
    assert usages.usages_for_key("client auth", rsa=True, manager_order=False) == (
        "digital signature", "client auth", "key encipherment",
    )  # fmt: skip
