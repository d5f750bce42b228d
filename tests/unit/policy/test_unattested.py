"""policy/unattested.py: no weaker way leads to a name that was proven, and none is open by itself."""

from __future__ import annotations

import pytest

from kubevouch.api.kubevouch_v1alpha1.node_identities import (
    ExpectedHardware,
    NodeIdentity,
    NodeIdentitySpec,
    NodeIdentityStatus,
)
from kubevouch.config import attestation_config
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy import unattested
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER as CLIENT
from kubevouch.wellknown import KUBELET_SERVING_SIGNER as SERVING

TOKEN, NODE = "system:bootstrap:p9k2zq", "system:node:worker-7"
PROVEN = NodeIdentity(
    metadata=ObjectMeta(name="worker-7"), status=NodeIdentityStatus(provider="tpm", identity="m-1", strength="tpm")
)
BY_TOKEN = NodeIdentity(
    metadata=ObjectMeta(name="worker-7"),
    status=NodeIdentityStatus(provider="join-token", identity="worker-7", strength="token"),
)
NOTHING = NodeIdentity(
    metadata=ObjectMeta(name="worker-7"),
    status=NodeIdentityStatus(provider="insecure", identity="request:1", strength="insecure"),
)
KEPT = NodeIdentity(
    metadata=ObjectMeta(name="worker-7"),
    spec=NodeIdentitySpec(expect_new_hardware=ExpectedHardware(identity="m-2")),
)
EMPTY = NodeIdentity(metadata=ObjectMeta(name="worker-7"))
BANNED = NodeIdentity(metadata=ObjectMeta(name="worker-6"), spec=NodeIdentitySpec(banned=True))
OPEN, STRICT = "fallbacks: {bootstrapToken: true}\n", "removeBindings: [renewal]\n"
RENEWS = "fallbacks: {selfRenewal: true}\n"


@pytest.mark.parametrize(
    ("signer", "user", "named", "banned", "text", "said"),
    [
        (CLIENT, TOKEN, None, None, "", ("proof-missing", False)),
        (CLIENT, TOKEN, EMPTY, None, "", ("proof-missing", False)),
        (CLIENT, TOKEN, None, None, OPEN, None),
        (CLIENT, TOKEN, PROVEN, None, OPEN, ("name-taken", True)),
        (CLIENT, TOKEN, KEPT, None, OPEN, ("name-taken", True)),
        (CLIENT, TOKEN, PROVEN, None, "", ("name-taken", True)),
        (CLIENT, TOKEN, None, BANNED, OPEN, ("banned", True)),
        (CLIENT, NODE, PROVEN, None, "", ("renewal-without-proof", False)),
        (CLIENT, NODE, PROVEN, None, RENEWS, None),
        (CLIENT, NODE, PROVEN, None, RENEWS + STRICT, ("renewal-without-proof", False)),
        (CLIENT, NODE, KEPT, None, RENEWS, ("renewal-without-proof", False)),
        (CLIENT, NODE, EMPTY, None, "", None),
        (CLIENT, NODE, BY_TOKEN, None, "", None),
        (CLIENT, NODE, BY_TOKEN, None, STRICT, ("renewal-without-proof", False)),
        (CLIENT, NODE, PROVEN, None, STRICT, ("renewal-without-proof", False)),
        (CLIENT, NODE, None, None, STRICT, None),
        (CLIENT, NODE, NOTHING, None, "", ("insecure", False)),
        (SERVING, NODE, NOTHING, None, "", ("insecure", False)),
        (CLIENT, TOKEN, NOTHING, None, OPEN, ("name-taken", True)),
        (CLIENT, NODE, BANNED, None, "", ("banned", True)),
        (CLIENT, "kubevouch:recovery:worker-7", PROVEN, None, OPEN, ("name-taken", False)),
        (CLIENT, "alice", None, None, "", None),
        (SERVING, NODE, PROVEN, None, STRICT, None),
        (SERVING, NODE, BANNED, None, "", ("banned", True)),
        ("kubernetes.io/kube-apiserver-client", TOKEN, PROVEN, BANNED, "", None),
    ],
)
def test_what_speaks_against_a_request_without_a_proof(
    signer: str,
    user: str,
    named: NodeIdentity | None,
    banned: NodeIdentity | None,
    text: str,
    said: tuple[str, bool] | None,
) -> None:
    head = "apiVersion: kubevouch.io/v1alpha1\nkind: AttestationConfiguration\nattestors: [{provider: tpm}]\n"
    config = attestation_config.decode((head + text).encode())
    facts = RequestFacts(
        name="r", signer_name=signer, username=user, key_fingerprint="0" * 64, key_algorithm="ECDSA",
        subject=SubjectFacts(common_name=NODE),
    )  # fmt: skip
    found = unattested.objection(facts, named, banned, config)
    assert (None if found is None else (found.step, found.denied)) == said
    is_proven = user == NODE and named is not None and bool(named.status.identity)
    assert unattested.is_fallback(facts, named) == (signer == CLIENT and (user == TOKEN or is_proven))
