"""What both sides of the method know: the evidence, and for whom a token has to be made."""

from __future__ import annotations

import msgspec

from kubevouch.attestation.interface import Binding

NAME = "gcp"
VERSION = "v1"


class TokenEvidence(msgspec.Struct, forbid_unknown_fields=True):
    """``token``: an identity token of the metadata service in full format."""

    token: str


def audience(binding: Binding) -> str:
    """A token is good for an hour and for whoever shows it; that one made for this is good for one key in one cluster,
    and, by the nonce in the digest, after the challenge was made only."""
    return f"kubelet-attest:{binding.cluster_id}:{binding.digest.hex()}"


def provider_id(project: str, zone: str, name: str) -> str:
    """As Kubernetes' cloud provider for Google writes ``spec.providerID`` of a Node."""
    return f"gce://{project}/{zone}/{name}"
