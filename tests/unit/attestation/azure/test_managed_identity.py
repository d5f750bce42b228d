"""Tokens of managed identities."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

import evidence_cases
from evidence_cases import Case
from kubevouch.attestation.azure import managed_identity, resource_ids
from kubevouch.attestation.azure.managed_identity import ManagedIdentity
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.jwt import KeySet


@pytest.mark.parametrize("case", evidence_cases.of("azure-managed-identity"))
def test_tokens_that_real_tools_made(case: Case) -> None:
    keys = KeySet.parse(json.dumps(case.roots[0]).encode())
    case.judge(
        lambda: managed_identity.verify(
            keys.payload(case.text("token")),
            tenants=case.given["tenants"],
            audience=case.given["audience"],
            resource_id=case.given["resource_id"],
            now=case.now,
        )
    )


NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
MOMENT = int(NOW.timestamp())
TENANT = "11111111-2222-3333-4444-555555555555"
OTHER_TENANT = "99999999-2222-3333-4444-555555555555"
SCOPE = "/subscriptions/00000000-1111-2222-3333-444444444444/resourcegroups/demo-rg/providers"
MACHINE = f"{SCOPE}/Microsoft.Compute/virtualMachines/node-z"
GOOD: dict[str, Any] = {
    "aud": "https://management.azure.com/",
    "iss": f"https://sts.windows.net/{TENANT}/",
    "iat": MOMENT - 3600,
    "nbf": MOMENT - 3600,
    "exp": MOMENT + 82800,
    "oid": "bbbb0000-0000-0000-0000-000000000001",
    "tid": TENANT,
    "xms_mirid": MACHINE,
}


def changed(**claims: Any) -> bytes:
    return json.dumps({**GOOD, **claims}).encode()


def verify(payload: bytes) -> ManagedIdentity:
    return managed_identity.verify(payload, tenants=[TENANT], resource_id=MACHINE.upper(), now=NOW)


@pytest.mark.parametrize(
    ("payload", "step"),
    [
        (b"{", "structure"),
        (changed()[:-1] + b',"tid":"x"}', "duplicate-key"),
        (changed(tid=OTHER_TENANT, iss=f"https://sts.windows.net/{OTHER_TENANT}/"), "tenant"),
        (changed(tid=""), "tenant"),
        (changed(iss=f"https://sts.windows.net/{OTHER_TENANT}/"), "issuer"),
        (changed(iss=f"https://sts.windows.net/{TENANT}"), "issuer"),
        (changed(iss=f"https://sts.windows.net.evil.test/{TENANT}/"), "issuer"),
        (changed(iss=""), "issuer"),
        (changed(aud="https://vault.azure.net"), "audience"),
        (changed(aud="https://management.azure.com"), "audience"),
        (changed(exp=MOMENT - 121), "time"),
        (changed(nbf=MOMENT + 121), "time"),
        (changed(exp=MOMENT + 30 * 3600), "time"),
        (changed(xms_mirid=MACHINE.replace("node-z", "node-y")), "resource"),
        (changed(xms_mirid=""), "resource"),
        (changed(xms_mirid=f"{SCOPE}/Microsoft.ManagedIdentity/userAssignedIdentities/node-z"), "resource"),
        (changed(xms_mirid=f"{MACHINE}/extensions/x"), "resource"),
        (changed(xms_mirid=f"{MACHINE}\n"), "resource"),
        (changed(xms_mirid=f"{SCOPE}/Microsoft.Compute/virtualMachineScaleSets/pool"), "resource"),
    ],
)
def test_a_token_is_refused_at_the_step_that_fails(payload: bytes, step: str) -> None:
    verify(changed())
    with pytest.raises(RefusedEvidenceError) as caught:
        verify(payload)
    assert caught.value.step == step


def test_the_second_form_of_issuer() -> None:
    found = verify(changed(iss=f"https://login.microsoftonline.com/{TENANT}/v2.0"))
    assert found.tenant == TENANT


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (MACHINE, f"{SCOPE}/Microsoft.Compute/virtualMachines/node-z".replace("resourcegroups", "resourceGroups")),
        (
            f"{SCOPE.upper()}/MICROSOFT.COMPUTE/VIRTUALMACHINESCALESETS/pool/VIRTUALMACHINES/3",
            f"{SCOPE}/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/3".replace(
                "resourcegroups", "resourceGroups"
            ),
        ),
        (f"{SCOPE}/Microsoft.Compute/virtualMachines/..", ""),
        (f"{SCOPE}/Microsoft.Compute/virtualMachines/a..b", ""),
        (f"{SCOPE}/Microsoft.Compute/virtualMachines/a/b", ""),
        (f"{SCOPE}/Microsoft.Compute/virtualMachines/a?b", ""),
        (f"{SCOPE}/Microsoft.Compute/virtualMachines/ａ", ""),
        (f"{SCOPE}/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/x", ""),
        (f"{SCOPE}/Microsoft.Compute/virtualMachineScaleSets/pool", ""),
        (f"{SCOPE}/Microsoft.Compute/disks/a", ""),
    ],
)
def test_names_of_machines_are_written_in_one_way(text: str, canonical: str) -> None:
    found = resource_ids.parse_machine(text)
    assert (found.canonical if found is not None else "") == canonical


def test_a_token_is_of_any_machine_or_of_the_one_that_is_named() -> None:
    assert managed_identity.verify(changed(), tenants=[TENANT], now=NOW).holder.group == "demo-rg"
    for named in ("x", f"{SCOPE}/Microsoft.Compute/disks/a"):
        with pytest.raises(RefusedEvidenceError):
            managed_identity.verify(changed(), tenants=[TENANT], resource_id=named, now=NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SCOPE}/Microsoft.Network/networkInterfaces/nic-z", True),
        (f"{SCOPE}/Microsoft.Compute/virtualMachineScaleSets/p/virtualMachines/3/networkInterfaces/nic", True),
        (f"{SCOPE}/Microsoft.Network/networkInterfaces/nic..z", False),
        (f"{SCOPE}/Microsoft.Network/networkInterfaces/nic/x", False),
        (f"{SCOPE}/Microsoft.KeyVault/vaults/v", False),
        (MACHINE, False),
        ("", False),
    ],
)
def test_nothing_but_interfaces_is_asked_for_as_one(text: str, expected: bool) -> None:
    assert resource_ids.is_interface(text) is expected
