"""AllowedMachine: a machine that the operator expects, and what is known of it before it comes."""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Struct, always, named, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

_NAMES = {"maxItems": 64}


class ProvenIdentity(Struct):
    """Which machine it is, as a method of attestation has it."""

    provider: Annotated[
        str, wire(1, "The method, such as tpm.", required=True, schema={"minLength": 1, "maxLength": 63})
    ] = always(str)
    identity: Annotated[
        str,
        wire(2, "The machine among those of this method; of a TPM sha256: and the digest of its endorsement key.",
             required=True, schema={"minLength": 1, "maxLength": 1024}),
    ] = always(str)  # fmt: skip


class AllowedMachineSpec(Struct):
    """Who the machine is, and what it may have a certificate for."""

    node_name: Annotated[
        str,
        wire(1, "The name of its Node.", required=True, schema={"minLength": 1, "maxLength": 253}),
    ] = always(str)
    addresses: Annotated[
        list[str],
        wire(2, "IP addresses that are its own.", list_type="set",
             schema=_NAMES | {"items": {"type": "string", "maxLength": 45, "x-kubernetes-validations": [
                 {"rule": "isIP(self)", "message": "must be an IP address"}]}}),
    ] = []  # fmt: skip
    dns_names: Annotated[
        list[str],
        wire(3, "DNS names that are its own, beside that of its Node.", list_type="set",
             schema=_NAMES | {"items": {"type": "string", "minLength": 1, "maxLength": 253}}),
    ] = []  # fmt: skip
    keys: Annotated[
        list[str],
        wire(4, "SHA-256 of the public keys that it may use, in hexadecimal digits; none means any.", list_type="set",
             schema=_NAMES | {"items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}),
    ] = []  # fmt: skip
    attributes: Annotated[
        dict[str, str],
        wire(5, "What policies may ask about: the rack, the owner, the serial number.", schema={"maxProperties": 64}),
    ] = {}
    not_after: Annotated[Time | None, wire(6, "After this moment it is expected no more.")] = None
    provider_id: Annotated[str, wire(7, "As spec.providerID of its Node has it.", schema={"maxLength": 1024})] = named(
        "providerID"
    )
    identities: Annotated[
        list[ProvenIdentity],
        wire(8, "What it has to prove that it is, one for each method that it may use; none means any.",
             list_type="map", map_keys=("provider",), schema={"maxItems": 16}),
    ] = []  # fmt: skip
    group: Annotated[
        str,
        wire(9, "The group of nodes that it belongs to, which says how strong its proof has to be.",
             schema={"maxLength": 63}),
    ] = ""  # fmt: skip


class AllowedMachine(Object):
    """A machine that may join, listed before it comes."""

    spec: Annotated[AllowedMachineSpec, wire(2, "What is known of it.", required=True)] = always(AllowedMachineSpec)
