"""A request with its evidence behind it: the PEM blocks of ``spec.request``.

Everybody reads the first block only, so that a signer that knows nothing of attestation signs the same request. Source:
the Cluster API proposal "Kubelet authentication" (2021), "CSR PEM Blocks"; its text spells the second block in two
ways, which are both read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubevouch.attestation import documents
from kubevouch.attestation.interface import Evidence, RefusedEvidenceError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem

PROVIDER_BLOCK = "KUBELET AUTHENTICATOR ATTESTATION PROVIDER"
DATA_BLOCK = "KUBELET AUTHENTICATOR ATTESTATION DATA"
SHORT_DATA_BLOCK = "ATTESTATION DATA"
_BLOCKS = (PROVIDER_BLOCK, DATA_BLOCK, SHORT_DATA_BLOCK)

GKE = "gke"
"""The method of requests that name none: those of GKE's nodes, which had blocks of their own (cloud-provider-gcp 1.28,
``cmd/gke-exec-auth-plugin``)."""
GKE_IDENTITY_BLOCK = "VM IDENTITY"
GKE_SIGNATURE_BLOCK = "ATTESTATION SIGNATURE"
GKE_CERTIFICATE_BLOCK = "ATTESTATION CERTIFICATE"
_GKE_BLOCKS = {
    SHORT_DATA_BLOCK: "attest",
    GKE_SIGNATURE_BLOCK: "signature",
    GKE_IDENTITY_BLOCK: "identity",
    GKE_CERTIFICATE_BLOCK: "certificate",
}

MAX_BYTES = 64 << 10
"""Of a request with its evidence."""
MAX_PROOFS = 4
"""That one request may carry."""
_MAX_NAME = 63


class _Proof(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    version: str
    evidence: Any
    challenge: str = ""


class _More(_Proof, kw_only=True):
    provider: str


class _Data(_Proof):
    also: list[_More] = []


def split(request: bytes) -> tuple[str, bytes]:
    """The provider and its data, as they stand behind the request.

    Raises:
        RefusedEvidenceError: ``size``, ``structure``, ``provider``: nobody could say for sure what was meant.
    """
    if len(request) > MAX_BYTES:
        raise RefusedEvidenceError("size", f"got {len(request)} bytes, expected at most {MAX_BYTES}")
    try:
        found = list(pem.blocks(request))
    except ParseError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    if not found or found[0].type != pem.CERTIFICATE_REQUEST:
        raise RefusedEvidenceError("structure", "expected a CERTIFICATE REQUEST first")
    types = [block.type for block in found[1:]]
    from_gke = GKE_IDENTITY_BLOCK in types or GKE_SIGNATURE_BLOCK in types
    strange = [each for each in types if each not in (_GKE_BLOCKS if from_gke else _BLOCKS)]
    if strange:
        raise RefusedEvidenceError("structure", f"got a block {strange[0][:64]!r} behind the request")
    if any(block.headers for block in found):
        raise RefusedEvidenceError("structure", "got a PEM header, expected none")
    if request.count(b"-----BEGIN ") != len(found) or _outside(request):
        raise RefusedEvidenceError("structure", "got bytes outside of the blocks, expected white space only")
    if from_gke:
        return GKE, _gke_data(found[1:])
    if types.count(PROVIDER_BLOCK) != 1:
        raise RefusedEvidenceError(
            "provider", f"expected one {PROVIDER_BLOCK} block, got {types.count(PROVIDER_BLOCK)}"
        )
    if len(types) != 2:
        raise RefusedEvidenceError("structure", f"expected one {DATA_BLOCK} block, got {len(types) - 1}")
    provider = next(each.contents for each in found if each.type == PROVIDER_BLOCK)
    data = next(each.contents for each in found[1:] if each.type != PROVIDER_BLOCK)
    return _name(provider), data


def parse(request: bytes) -> tuple[Evidence, ...]:
    """The proofs behind a request, the first of the method that its signer is of.

    Raises:
        RefusedEvidenceError
    """
    provider, data = split(request)
    read = documents.decode(data, _Data, f"the data of {provider}")
    if len(read.also) >= MAX_PROOFS:
        raise RefusedEvidenceError("structure", f"got {len(read.also) + 1} proofs, expected at most {MAX_PROOFS}")
    proofs = [
        Evidence(
            provider=provider, version=read.version, data=msgspec.json.encode(read.evidence), challenge=read.challenge
        )
    ]
    for each in read.also:
        name = _name(each.provider.encode())
        proofs.append(
            Evidence(
                provider=name, version=each.version, data=msgspec.json.encode(each.evidence), challenge=each.challenge
            )
        )
    if len({each.provider for each in proofs}) != len(proofs):
        raise RefusedEvidenceError("structure", "got two proofs of one provider")
    return tuple(proofs)


def build(request: bytes, proofs: Sequence[Evidence]) -> bytes:
    """``request`` in PEM, with ``proofs`` behind it; at least one."""
    first, *others = proofs
    data = _Data(
        version=first.version,
        evidence=msgspec.Raw(first.data),
        challenge=first.challenge,
        also=[
            _More(
                version=each.version, evidence=msgspec.Raw(each.data), challenge=each.challenge, provider=each.provider
            )
            for each in others
        ],
    )
    return (
        request
        + pem.encode(PROVIDER_BLOCK, first.provider.encode())
        + pem.encode(DATA_BLOCK, msgspec.json.encode(data))
    )


def _gke_data(found: Sequence[pem.Block]) -> bytes:
    """The blocks as the data of a method, each at most once: Google's own approver took the last one of a kind."""
    evidence = {_GKE_BLOCKS[each.type]: each.contents for each in found}
    if len(evidence) != len(found) or len(evidence) < len(_GKE_BLOCKS) - ("certificate" not in evidence):
        raise RefusedEvidenceError("structure", f"got {', '.join(each.type for each in found)}, expected each once")
    return msgspec.json.encode(_Data(version="v1", evidence=evidence))


def _name(text: bytes) -> str:
    try:
        name = text.decode("ascii")
    except UnicodeDecodeError:
        name = ""
    if (
        not 0 < len(name) <= _MAX_NAME
        or name.strip("-") != name
        or not name.replace("-", "").isalnum()
        or name.lower() != name
    ):
        raise RefusedEvidenceError("provider", f"got {text[:64]!r}, expected the name of a provider")
    return name


def _outside(request: bytes) -> bytes:
    """What stands between and behind the blocks, without white space."""
    left = []
    inside = False
    for line in request.splitlines():
        if line.startswith(b"-----BEGIN "):
            inside = True
        elif line.startswith(b"-----END "):
            inside = False
        elif not inside:
            left.append(line.strip())
    return b"".join(left)
