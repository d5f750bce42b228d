"""What both sides of the method know: the evidence, and which nonce a document has to have."""

from __future__ import annotations

import msgspec

from kubevouch.attestation.interface import Binding

NAME = "azure"
VERSION = "v1"
_NONCE_DIGITS = 32


class Document(msgspec.Struct, frozen=True):
    """As the metadata service answers: ``signature`` is a CMS SignedData in base64 with the document in it."""

    encoding: str
    signature: str


class Proof(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Args:
    token: of the machine's own managed identity; empty for none.
    resource_id: which machine to ask the API for. The machine's word only: the API says whether it has that ``vmId``.
    """

    document: Document
    token: str = ""
    resource_id: str = ""


def nonce(binding: Binding) -> str:
    """For a document that is for one key and one challenge.

    The metadata service takes up to 32 letters and digits (API version 2018-10-01 and later), so these are 128 bits of
    the digest: enough, because who wants another key with the same ones has to find it while the challenge lasts.
    """
    return binding.digest.hex()[:_NONCE_DIGITS]


def provider_id(resource_id: str) -> str:
    """As Kubernetes' cloud provider for Azure writes ``spec.providerID`` of a Node."""
    return f"azure://{resource_id}"
