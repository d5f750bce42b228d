"""``join --wait``: until the machine has its serving certificate, too, which its kubelet or the agent asks for."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.agent.interface import NotIssuedError, Observer, RequestDeniedError
from kubevouch.agent.serving import PREFIX, is_self_signed
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.interface import Client, ClientConfigurationError, TransportError
from kubevouch.client.pager import PAGES, list_all
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases.join import CERTIFICATE_FOLDER, KUBELET_CONF, KUBELET_CONFIG
from kubevouch.pki import rotation
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.reviews.csr_review import State, state_of
from kubevouch.util.clock import Clock

_POLL_SECONDS = 1.0
SERVING = CERTIFICATE_FOLDER / f"{PREFIX}-current.pem"
SELF_SIGNED = CERTIFICATE_FOLDER / "kubelet.crt"
_ASKING = "kubevouch agent --serving or a kubelet with serverTLSBootstrap asks for one"


class Serving(msgspec.Struct, frozen=True):
    """The certificate with which this machine serves.

    Args:
        self_signed: nobody but this machine vouches for it, since its kubelet was not told to ask.
    """

    path: Path
    certificate: Certificate
    self_signed: bool = False


async def wait_for_serving(root: Path, node_name: str, clock: Clock, observer: Observer, *, seconds: float) -> Serving:
    """Until there is one that holds; a denial ends the wait.

    Raises:
        NotIssuedError: there was none until the time was over.
        RequestDeniedError: the request for it was denied or has failed.
    """
    end = clock.monotonic() + seconds
    told = ""
    async with AsyncExitStack() as stack:
        client: Client | None = None
        while True:
            found = read(root)
            if found is not None and rotation.usable(found.certificate, now=clock.now()):
                return found
            try:
                if client is None:
                    client = await stack.enter_async_context(
                        client_from_kubeconfig(root / KUBELET_CONF, component="agent")
                    )
                why = outlook(await _newest(client, node_name))
            except (APIStatusError, TransportError, ClientConfigurationError, OSError) as err:
                why = f"its request cannot be looked at: {err}"
            if clock.monotonic() >= end:
                raise NotIssuedError(f"there is no serving certificate after {seconds:g} s: {why}", _ASKING)
            if why != told:
                observer.waiting(why)
                told = why
            await clock.sleep(_POLL_SECONDS)


def read(root: Path) -> Serving | None:
    """What is there now, valid or not; a self-signed one only if the kubelet is not told to ask for another."""
    for path, self_signed in ((SERVING, False), (SELF_SIGNED, True)):
        if self_signed and _asks(root / KUBELET_CONFIG):
            break
        try:
            leaf = x509_certificate.parse_bundle((root / path).read_bytes())[0]
        except (OSError, ParseError):
            # Not there yet, or about to be replaced.
            continue
        # At the place of the one that is asked for, a self-signed one only fills the time.
        if self_signed or not is_self_signed(leaf):
            return Serving(root / path, leaf, self_signed)
    return None


def _asks(path: Path) -> bool:
    try:
        tree, _ = yamltext.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(tree, dict) and tree.get("serverTLSBootstrap") is True


async def _newest(client: Client, node_name: str) -> CertificateSigningRequest | None:
    options = replace(PAGES, field_selector=f"spec.signerName={wellknown.KUBELET_SERVING_SIGNER}")
    found = (await list_all(client, catalog.CERTIFICATE_SIGNING_REQUESTS, options=options)).items
    user = f"{wellknown.NODE_USER_PREFIX}{node_name}"
    mine = [each for each in found if each.spec.username == user]
    return max(mine, key=lambda each: str(each.metadata.creation_timestamp), default=None)


def outlook(csr: CertificateSigningRequest | None) -> str:
    """What a request that has led to no file yet waits for. Raises :class:`RequestDeniedError`."""
    if csr is None:
        return "nobody has asked for a serving certificate yet"
    name, state = csr.metadata.name, state_of(csr)
    if state in (State.DENIED, State.FAILED):
        why = "; ".join(f"{each.reason}: {each.message}" for each in csr.status.conditions)
        raise RequestDeniedError(
            f"the request {name} for the serving certificate is {state.value.lower()}: {why}",
            f"kubevouch csr show {name} says more",
        )
    if state is State.PENDING:
        return f"the request {name} for the serving certificate is not approved yet; kubevouch csr show {name} says why"
    if state is State.APPROVED:
        return f"the request {name} for the serving certificate is approved and not signed yet"
    return f"the request {name} has its certificate, which is not on disk yet"
