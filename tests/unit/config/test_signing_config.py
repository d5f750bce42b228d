"""config/signing_config.py: what is no description of CAs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubevouch.config import signing_config
from kubevouch.config.config_file import ConfigFileError

GOOD: dict[str, Any] = {"name": "a", "trustFile": "ca.pem", "webhook": {"kubeconfigFile": "conf"}}


def decode(*authorities: dict[str, Any]) -> signing_config.SigningConfiguration:
    document = {
        "apiVersion": signing_config.API_VERSION,
        "kind": signing_config.KIND,
        "authorities": list(authorities),
    }
    return signing_config.decode(json.dumps(document).encode())


def test_a_good_one() -> None:
    (found,) = decode({**GOOD, "signerNames": ["kubernetes.io/kubelet-serving"]}).authorities
    assert found.webhook is not None
    assert (found.name, found.timeout_seconds, found.webhook.kubeconfig_file) == ("a", 30, "conf")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": ""}, r"authorities\[0\].name: Required value"),
        ({"trustFile": ""}, r"authorities\[0\].trustFile: Required value: without it nobody's certificate is believed"),
        ({"timeoutSeconds": 0}, "timeoutSeconds: Invalid value: 0: must be between 1 and 600"),
        ({"toleratedUsages": ["everything"]}, "toleratedUsages: Invalid value"),
        ({"toleratedExtensions": ["1.2.3", "nsComment"]}, r"toleratedExtensions\[1\]: Invalid value: \"nsComment\""),
        ({"webhook": None}, "must have exactly one of process, webhook, cfssl, vault, acme"),
        ({"process": {"socket": "s"}}, "must have exactly one of"),
        ({"webhook": {}}, r"authorities\[0\].webhook.kubeconfigFile: Required value"),
        ({"webhook": None, "acme": {"directory": "https://ca"}}, "acme.accountKeyFile: Required value"),
        ({"signerNames": ["x", "x"]}, r"signerNames\[1\]: Duplicate value"),
        ({"colour": "blue"}, "strict decoding error"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigFileError, match=why):
        decode({**GOOD, **change})


def test_two_of_one_name() -> None:
    with pytest.raises(ConfigFileError, match=r"authorities\[1\].name: Duplicate value"):
        decode(GOOD, GOOD)


PAGE = (Path(__file__).parents[3] / "docs/howto/ca-keys.md").read_text()


def test_the_example_of_the_manual_is_one_and_its_table_names_every_setting() -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (found,) = signing_config.decode(example.encode()).authorities
    assert found.webhook is not None and found.signer_names == ["kubernetes.io/kubelet-serving"]
    for way, settings in (
        ("webhook", signing_config.WebhookSettings), ("cfssl", signing_config.CFSSLSettings),
        ("vault", signing_config.VaultSettings), ("acme", signing_config.ACMESettings),
        ("process", signing_config.ProcessSettings),
    ):  # fmt: skip
        (row,) = re.findall(rf"^\| `{way}` \|(.*)\|$", PAGE, re.MULTILINE)
        for field in settings.__struct_fields__:
            first, *rest = field.split("_")
            assert f"`{first}{''.join(word.capitalize() for word in rest)}`" in row, field
