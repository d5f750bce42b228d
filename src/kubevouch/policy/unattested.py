"""What becomes of requests to Kubernetes' own signers for kubelets where machines prove what they are.

A weaker way to the same certificate is the way that an attacker takes: it is closed unless the operator opens it, and
never leads to a name that a machine has proven to be its own.
"""

from __future__ import annotations

import msgspec

from kubevouch.api.attested import Strength, at_least
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.config.attestation_config import INSECURE, RENEWAL, AttestationConfiguration
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import attestation_provider
from kubevouch.policy.facts import RequestFacts
from kubevouch.wellknown import (
    ATTESTED_CLIENT_SIGNER_PREFIX,
    BOOTSTRAP_USER_PREFIX,
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBELET_SERVING_SIGNER,
)


class Objection(msgspec.Struct, frozen=True):
    """What speaks against a request. ``denied``: for ever; else nobody's rule approves it, and a person may."""

    step: str
    message: str
    denied: bool = False


def objection(
    facts: RequestFacts, named: NodeIdentity | None, banned: NodeIdentity | None, config: AttestationConfiguration
) -> Objection | None:
    """What speaks against a request that carries no proof; None for nothing.

    Args:
        named: the identity of the name that is asked for.
        banned: one that is banned and has to do with the key or the requester.
    """
    if facts.signer_name not in (KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER):
        return None
    name = node_name_of(facts.subject.common_name)
    for each in (banned, named):
        if each is not None and each.spec.banned:
            other = each.metadata.name
            text = f"node {other} is banned; kubevouch node unban {other} lets it come back"
            return Objection("banned", text, denied=True)
    own = facts.username == facts.subject.common_name
    # What has proven nothing is let in once, and gets no further by certificates that ask for no proof.
    if own and named is not None and named.status.strength == Strength.INSECURE:
        text = (
            f"node {name} has proven nothing (insecure), which is never renewed and serves nobody: kubevouch node "
            f"forget {name} lets it come back by another method"
        )
        return Objection("insecure", text)
    if facts.signer_name == KUBELET_SERVING_SIGNER:
        return None
    claimed = named is not None and (bool(named.status.identity) or _is_kept(named))
    methods = ", ".join(f"{ATTESTED_CLIENT_SIGNER_PREFIX}{each.provider}" for each in config.attestors)
    if own:
        if named is not None and not _may_renew(named, config):
            return Objection("renewal-without-proof", f"node {name} renews by proving again what it is: {methods}")
        return None
    if claimed:
        text = f"node {name} is of a machine that proves what it is, and this request proves nothing: {methods}"
        return Objection("name-taken", text, denied=facts.username.startswith(BOOTSTRAP_USER_PREFIX))
    if facts.username.startswith(BOOTSTRAP_USER_PREFIX) and not config.fallbacks.bootstrap_token:
        return Objection(
            "proof-missing", f"machines prove here what they are, and a bootstrap token is none: {methods}"
        )
    return None


def forgotten(facts: RequestFacts, last_signer: str, config: AttestationConfiguration) -> Objection | None:
    """What speaks against a node that asks as itself, and whose name was let go or went with its Node.

    Its certificate counts until it ends, and is no way to one that nobody has to prove anything for.

    Args:
        last_signer: of the newest client certificate that the ledger has of the name; empty for none.
    """
    provider = attestation_provider(last_signer)
    if not provider:
        return None
    name = node_name_of(facts.subject.common_name)
    if facts.signer_name == KUBELET_SERVING_SIGNER:
        text = f"node {name} has proven nothing (insecure), which serves nobody"
        return Objection("insecure", text) if provider == INSECURE else None
    if config.fallbacks.self_renewal and provider != INSECURE:
        return None
    text = f"node {name} was let go and comes with a certificate for a proof: it proves anew what it is, or joins again"
    return Objection("renewal-without-proof", text)


def _is_kept(named: NodeIdentity) -> bool:
    """Whether the operator has kept the name for a machine that he has named, and that has yet to come."""
    expected = named.spec.expect_new_hardware
    return expected is not None and bool(expected.identity)


def _may_renew(named: NodeIdentity, config: AttestationConfiguration) -> bool:
    """Whether the node renews by a certificate: whoever copies that does, too, for longer than the proof is worth.

    Who has shown a token has nothing else to show.
    """
    if not named.status.identity:
        return not _is_kept(named)
    if RENEWAL in config.remove_bindings:
        return False
    return config.fallbacks.self_renewal or at_least(Strength.TOKEN, Strength(named.status.strength))


def is_fallback(facts: RequestFacts, named: NodeIdentity | None) -> bool:
    """Whether it is a way that is weaker than a proof, and that the operator has opened.

    Args:
        named: the identity of the node that asks.
    """
    if facts.signer_name != KUBE_APISERVER_CLIENT_KUBELET_SIGNER:
        return False
    own = facts.username == facts.subject.common_name
    return facts.username.startswith(BOOTSTRAP_USER_PREFIX) or (
        own and named is not None and bool(named.status.identity)
    )
