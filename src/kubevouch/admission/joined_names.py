"""As which nodes machines have joined lately, and with which keys: two machines that were given one name both work.

Kubernetes approves the second like the first (a machine that is installed anew is no different), and neither hears of
the other until their kubelets fight over one Node.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.pki.errors import PKIError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_request


class JoinedNames:
    """By the requests that bootstrap tokens have been given a certificate for, for as long as these are kept."""

    def __init__(self) -> None:
        self._joined: dict[str, tuple[str, bytes]] = {}
        self._by_name: dict[str, dict[str, bytes]] = {}

    def clear(self) -> None:
        self._joined.clear()
        self._by_name.clear()

    def changed(self, name: str, obj: CertificateSigningRequest | None) -> None:
        """The request ``name`` is now ``obj``, or gone."""
        if obj is None:
            node, _ = self._joined.pop(name, ("", b""))
            requests = self._by_name.get(node, {})
            requests.pop(name, None)
            if node and not requests:
                del self._by_name[node]
        elif obj.status.certificate and name not in self._joined:
            found = node_and_key(obj, obj.spec.username)
            if found is not None:
                self._joined[name] = found
                self._by_name.setdefault(found[0], {})[name] = found[1]

    def other_machine(self, obj: CertificateSigningRequest, requester: str) -> str:
        """The newest request by which a machine with another key has become the node ``obj`` asks for; else empty."""
        if not self._by_name:
            return ""
        found = node_and_key(obj, requester)
        if found is None:
            return ""
        others = (name for name, key in reversed(self._by_name.get(found[0], {}).items()) if key != found[1])
        return next(others, "")


def node_and_key(csr: CertificateSigningRequest, requester: str) -> tuple[str, bytes] | None:
    """The node's user name and the public key, if it is a machine that joins with a bootstrap token."""
    if csr.spec.signer_name != wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER or not requester.startswith(
        wellknown.BOOTSTRAP_USER_PREFIX
    ):
        return None
    try:
        request = x509_request.parse_pem(csr.spec.request or b"")
    except PKIError:
        return None
    name = request.subject.common_name
    return (name, request.public_key.canonical_info) if node_name_of(name) else None


def shared_names(csrs: Iterable[CertificateSigningRequest]) -> dict[str, list[str]]:
    """The nodes that machines with different keys have become, each with the requests, in the order of ``csrs``."""
    found: dict[str, dict[bytes, str]] = {}
    for csr in csrs:
        joined = node_and_key(csr, csr.spec.username) if csr.status.certificate else None
        if joined is not None:
            found.setdefault(joined[0], {})[joined[1]] = csr.metadata.name
    return {node: list(keys.values()) for node, keys in found.items() if len(keys) > 1}
