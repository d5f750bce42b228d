"""An AttestationConfiguration is safe where it says nothing, and what is wrong with it is told by its field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubevouch.api.attested import Strength
from kubevouch.config import attestation_config
from kubevouch.config.config_file import ConfigFileError

HEAD = "apiVersion: kubevouch.io/v1alpha1\nkind: AttestationConfiguration\n"
TPM = "attestors: [{provider: tpm}]\n"


def test_what_is_left_out_is_the_safe_choice() -> None:
    config = attestation_config.decode((HEAD + TPM).encode())
    assert attestation_config.settings_of(config.attestors[0]) == {}
    assert not config.fallbacks.bootstrap_token
    assert (config.on_failed_renewal.revoke, config.on_failed_renewal.taint) == (False, None)
    assert attestation_config.lifetimes_of(config)[Strength.TPM] == 14 * 86_400


def test_a_stronger_proof_is_never_worth_less() -> None:
    found = [attestation_config.USUAL_LIFETIMES[each] for each in Strength]
    assert found == sorted(found)


def test_settings_are_the_methods_own() -> None:
    text = (
        HEAD
        + "attestors: [{provider: tpm, settings: {roots: [a.pem], deep: {one: 1}}}]\n"
        + "lifetimes: [{strength: tpm, seconds: 3600}]\n"
    )
    config = attestation_config.decode(text.encode())
    assert attestation_config.settings_of(config.attestors[0]) == {"roots": ["a.pem"], "deep": {"one": 1}}
    assert attestation_config.lifetimes_of(config)[Strength.TPM] == 3600


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("attestors: []\n", "attestors: Required value"),
        ("attestors: [{provider: tpm}, {provider: tpm}]\n", "attestors[1].provider: Duplicate value"),
        ("attestors: [{provider: T/P}]\n", "attestors[0].provider: Invalid value"),
        ("attestors: [{provider: tpm, settings: [1]}]\n", "attestors[0].settings: Invalid value"),
        ("attestors: [{provider: tpm, nodeName: worker}]\n", "attestors[0].nodeName: Invalid value"),
        ("attestors: [{provider: tpm, nodeName: 'W{tpm.ekHash}'}]\n", "attestors[0].nodeName: Invalid value"),
        (TPM + "machines: Sometimes\n", "machines: Unsupported value"),
        (TPM + "machineGraceSeconds: -1\n", "machineGraceSeconds: Invalid value"),
        (TPM + "strength: iron\n", "strength: Unsupported value"),
        (TPM + "groups: [{name: a, strength: iron}]\n", "groups[0].strength: Unsupported value"),
        (TPM + "groups: [{name: a}, {name: a}]\n", "groups[1].name: Duplicate value"),
        (TPM + "groups: [{name: a, providers: [aws]}]\n", "groups[0].providers[0]: Unsupported value"),
        (TPM + "groups: [{name: a, allOf: [aws]}]\n", "groups[0].allOf[0]: Unsupported value"),
        (TPM + "groups: [{name: a, callback: true}]\n", "groups[0].callback: Unsupported value"),
        (TPM + "lifetimes: [{strength: tpm, seconds: 1}]\n", "lifetimes[0].seconds: Invalid value"),
        (TPM + "lifetimes: [{strength: iron, seconds: 3600}]\n", "lifetimes[0].strength: Unsupported value"),
        (TPM + "lifetimes: [{strength: tpm, seconds: 600}, {strength: tpm, seconds: 601}]\n", "lifetimes[1].strength"),
        (TPM + "onFailedRenewal: {taint: {effect: Never}}\n", "onFailedRenewal.taint.effect: Unsupported value"),
        (TPM + "onFailedRenewal: {taint: {key: 'a b'}}\n", "onFailedRenewal.taint.key: Invalid value"),
        (TPM + "onFailedRenewal: {taint: {value: 'a b'}}\n", "onFailedRenewal.taint.value: Invalid value"),
        (TPM + "nodeLabels: {'a b': aws.region}\n", "nodeLabels: Invalid value"),
        (TPM + "nodeLabels: {a: ''}\n", "nodeLabels[a]: Required value"),
        (TPM + "removeBindings: [all]\n", "removeBindings[0]: Unsupported value"),
        (TPM + "fallback: {}\n", 'unknown field "fallback"'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_by_its_field(text: str, why: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        attestation_config.decode((HEAD + text).encode())
    assert why in str(caught.value)


def test_the_configurations_in_the_manual_are_read() -> None:
    pages = (Path(__file__).parents[3] / "docs" / "attestation").rglob("*.md")
    blocks = [block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    found = [block for block in blocks if "kind: AttestationConfiguration" in block]
    assert found
    for block in found:
        attestation_config.decode(block.encode())


def test_lists_are_bounded() -> None:
    many = "attestors:\n" + "".join(f"- provider: p{number}\n" for number in range(17))
    groups = TPM + "groups:\n" + "".join(f"- name: g{number}\n" for number in range(65))
    for text in (many, groups):
        with pytest.raises(ConfigFileError, match="Too many"):
            attestation_config.decode((HEAD + text).encode())
