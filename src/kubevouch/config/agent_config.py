"""agent.kubevouch.io AgentConfiguration: what runs after a renewal, and certificates of other programs."""

from __future__ import annotations

from typing import Annotated

from kubevouch.config import config_file
from kubevouch.machinery.declaration import Struct, wire

KIND, API_VERSION = "AgentConfiguration", "agent.kubevouch.io/v1alpha1"


class Hook(Struct):
    """A command that runs after a renewal, without a shell."""

    command: Annotated[list[str], wire(1, "The program and its arguments.")] = []


class AgentCertificate(Struct):
    """A certificate of another program on this machine."""

    name: Annotated[str, wire(1, "How it is called here; its files are NAME-current.pem and so on.")] = ""
    folder: Annotated[str, wire(2, "Where its files are.")] = ""
    signer_name: Annotated[str, wire(3, "Who is to sign it.")] = ""
    common_name: Annotated[str, wire(4, "Of its subject.")] = ""
    organizations: Annotated[list[str], wire(5, "Of its subject.")] = []
    purpose: Annotated[str, wire(6, "client or server.")] = "client"
    addresses: Annotated[list[str], wire(7, "Names and IP addresses that it is to have.")] = []
    expiration_seconds: Annotated[int | None, wire(8, "Its life; the signer's default otherwise.")] = None
    algorithm: Annotated[str, wire(9, "Of its key: kubeadm's encryptionAlgorithm.")] = "ECDSA-P256"
    hooks: Annotated[list[Hook], wire(10, "What runs after it was renewed.")] = []


class AgentConfiguration(Struct):
    """The file."""

    client_hooks: Annotated[list[Hook], wire(1, "What runs after the node's client certificate was renewed.")] = []
    serving_hooks: Annotated[list[Hook], wire(2, "What runs after its serving certificate was renewed.")] = []
    certificates: Annotated[list[AgentCertificate], wire(3, "Certificates of other programs.")] = []


def decode(text: bytes) -> AgentConfiguration:
    """Raises :class:`~kubevouch.config.config_file.ConfigFileError`."""
    return config_file.decode(text, KIND, {API_VERSION: AgentConfiguration})
