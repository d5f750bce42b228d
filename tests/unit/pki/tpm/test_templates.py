from __future__ import annotations

import msgspec
import pytest

import evidence_cases
from kubevouch.pki.tpm import algorithms, public_area, templates
from kubevouch.pki.tpm.public_area import Public

_SEEN = {
    case.id: public_area.parse(case.octets("ek_public"))
    for case in evidence_cases.everything()
    if case.accepted and case.octets("ek_public") and case.kind != "tpm-credential"
}


def _bare(public: Public) -> Public:
    return msgspec.structs.replace(public, unique=())


def test_endorsement_keys_of_real_tpms_are_made_from_our_templates() -> None:
    ours = {_bare(each.template).encode_area() for each in templates.ENDORSEMENT_KEYS}
    assert len(_SEEN) > 3
    kinds = set()
    for name, public in _SEEN.items():
        assert _bare(public).encode_area() in ours, name
        kinds.add(public.kind)
    assert {"RSA-2048", "ECC-P384"} <= kinds


@pytest.mark.parametrize("kind", templates.ENDORSEMENT_KEYS, ids=lambda each: each.kind)
def test_an_endorsement_key_decrypts_for_its_tpm_and_never_signs(kind: templates.EndorsementKey) -> None:
    wanted = public_area.RESIDENT | public_area.Attributes.RESTRICTED | public_area.Attributes.DECRYPT
    assert kind.template.has(wanted)
    assert not kind.template.attributes & public_area.Attributes.SIGN
    digest = algorithms.HASHES[kind.template.name_algorithm]
    assert len(kind.template.auth_policy) == digest.size


def test_the_attestation_key_is_restricted_and_the_key_of_the_node_is_not() -> None:
    assert templates.ATTESTATION_KEY.attributes == 0x00050472
    assert templates.NODE_KEY.attributes == 0x00040472
    assert templates.STORAGE_ROOT_KEY.attributes == 0x00030472


def test_each_kind_has_its_own_index() -> None:
    kinds = templates.ENDORSEMENT_KEYS
    assert len({each.certificate for each in kinds}) == len({each.kind for each in kinds}) == len(kinds)
