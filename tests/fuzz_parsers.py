"""Every parser that faces the network as one function of bytes, and inputs that it accepts."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cloud_servers import aws
from kubevouch.admission.dynamic import review
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap, Node
from kubevouch.attestation import documents
from kubevouch.attestation import request as evidence_request
from kubevouch.attestation.aws import evidence as aws_evidence
from kubevouch.attestation.aws import sts
from kubevouch.attestation.aws.identity_document import verify_document
from kubevouch.attestation.azure import attested_document, managed_identity
from kubevouch.attestation.azure.evidence import Document
from kubevouch.attestation.azure.intermediates import FOLDERS, verify_place
from kubevouch.attestation.gcp import identity_token, instance_identity
from kubevouch.attestation.gke import verifier as gke
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.jwt import KeySet, KeySetError
from kubevouch.authentication import bearer, impersonation
from kubevouch.authentication.service_account import SigningKeys, _unverified_issuer
from kubevouch.client import codec
from kubevouch.client.frames import JSONFramer, ProtobufFramer
from kubevouch.client.tls import check_pair
from kubevouch.config import kubeconfig
from kubevouch.ledger import checkpoints, proof_text, proofs
from kubevouch.ledger import entries as ledger_entries
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ManagedFieldsEntry, Object, ObjectMeta
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text import selectors
from kubevouch.machinery.text.times import Time
from kubevouch.machinery.writing import field_set, json_patch, merge_patch, strategic_merge_patch
from kubevouch.machinery.writing.managed_fields import ManagedFieldsManager
from kubevouch.pki import authority, jws, keys, recovery_proof
from kubevouch.pki.client_certificate import TrustAnchors, identify, verify_presented
from kubevouch.pki.errors import DeviceChainError, PKIError, StructureError
from kubevouch.pki.issued_elsewhere import Expectation, verify_issued_elsewhere
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.ssh import sshsig
from kubevouch.pki.tpm import attest, credential, ek_certificate, event_log, public_area
from kubevouch.pki.tpm import signatures as tpm_signatures
from kubevouch.pki.x509 import cms, information_access, pem, x509_certificate, x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.usages import resolve
from kubevouch.policy import approval_review
from kubevouch.records import cluster_info
from kubevouch.registry import paging
from kubevouch.server import decoding, negotiation, query_options, request_info
from kubevouch.server.query import Query
from kubevouch.util import dns_message

FIXTURES = Path(__file__).parent / "vectors" / "fixtures-server"
NOW = dt.datetime(2031, 3, 1, tzinfo=dt.UTC)


def tellable(err: APIStatusError) -> None:
    """The refusal makes a Status that can be sent and read."""
    body = json_codec.encode(err.status)
    assert json_codec.decode(body, type(err.status)).message == err.status.message


def text_of(data: bytes) -> str:
    """As the headers of a request reach us."""
    return data.decode("utf-8", "replace")


def target_of(data: bytes) -> str:
    """As a request line reaches us: the HTTP parser lets nothing else through."""
    return data.decode("ascii", "ignore")


# ------------------------------------------------------------------ objects

CONFIG_MAP = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","labels":{"x":"y"},'
    b'"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2031-01-01T00:00:00Z",'
    b'"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]},"data":{"k":"v"},"binaryData":{"b":"AAEC"}}'
)
CSR = (
    b'{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"a"},"spec":'
    b'{"request":"'
    + base64.b64encode((FIXTURES / "csr-client-worker-7.pem").read_bytes())
    + b'","signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":["digital signature","client auth"],'
    b'"expirationSeconds":3600},"status":{"conditions":[{"type":"Approved","status":"True","message":"m"}]}}'
)
NODE = (
    b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},'
    b'"status":{"capacity":{"cpu":"1500m","memory":"2Gi"},"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],'
    b'"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2031-01-01T00:00:00.5Z"}]}}'
)
# Deeper than any stack; inside the bounds on depth and size that other readers have.
DEEP = b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}"
JSON_WORDS = (
    DEEP, b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"-0", b"1e999", b"1" * 5000, b"\\ud800",
    b"\\u0000", b'"a":', b"[[[[[[[[", b"0.1", b'""', b"\xff", b"\xe2\x80\xa8", b"9223372036854775808",
    b'"metadata":', b"\\n",
)  # fmt: skip
YAML_WORDS = (
    b"&a ", b"*a", b"? ", b"- ", b"!!binary ", b"!!float ", b"<<: ", b"--- ", b"...\n", b"|\n ", b">\n ",
    b"%YAML 1.1\n", b"0x", b"1:2:3", b"2031-01-01", b".inf", b".nan", b"\n  ", b": ", b"{", b"}", b"'", b'"', b"\t",
    b"~",
)  # fmt: skip


def as_protobuf(resource: Resource[Any], json_text: bytes) -> bytes:
    obj = decoding.decode(json_text, negotiation.JSON, resource, catalog.SCHEME).obj
    return codec.encode(resource, obj, as_protobuf=True)[1]


def body_of(resource: Resource[Any], media: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        body = decoding.decode(data, media, resource, catalog.SCHEME)
        # What is read can be written in every form.
        codec.encode(resource, body.obj, as_protobuf=True)
        return codec.encode(resource, body.obj, as_protobuf=False)

    return parse


def answer_as(resource: Resource[Any], media: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        try:
            return codec.decode(resource, data, media)
        except codec.CodecError:
            listing = codec.split_list(resource, data, media)
            return [listing.decode_item(item) for item in listing.items]

    return parse


# ------------------------------------------------------------------ patches

_STORED = decoding.decode(NODE, negotiation.JSON, catalog.NODES, catalog.SCHEME).obj
_TREE = {"apiVersion": "v1", "kind": "Node", **json_codec.to_builtins(_STORED)}
PATCH_WORDS = (
    *JSON_WORDS, b'"$patch":"delete"', b'"$patch":"replace"', b'"$retainKeys":[', b'"$setElementOrder/taints":[',
    b'"$deleteFromPrimitiveList/finalizers":[', b'"key":', b'"op":"move"', b'"op":"copy"', b'"from":"/spec"',
    b'"path":"/spec/taints/-"', b"/~1~0", b'"op":"test"', b'"value":',
)  # fmt: skip


def json_patched(data: bytes) -> object:
    return read_back(json_patch.apply(_TREE, json_patch.decode(data)))


def merge_patched(data: bytes) -> object:
    return read_back(merge_patch.apply(_TREE, merge_patch.decode(data)))


def strategically_patched(data: bytes) -> object:
    return read_back(
        strategic_merge_patch.apply(_TREE, strategic_merge_patch.decode(data), schema_of(catalog.NODES.type))
    )


def read_back(tree: Any) -> object:
    json_codec.encode(tree)
    return json_codec.from_tree(tree, Node)


_MANAGER: dict[type[Object], ManagedFieldsManager] = {
    Node: ManagedFieldsManager(catalog.NODES),
    ConfigMap: ManagedFieldsManager(catalog.CONFIG_MAPS),
}


def applied(data: bytes) -> object:
    tree, _ = decoding.parse_tree(data, negotiation.YAML)
    return _MANAGER[Node].apply(_STORED, tree, "fuzzer", Time(1), force=True)


def fields_v1(data: bytes) -> object:
    fields = field_set.from_fields_v1(data)
    written = field_set.to_fields_v1(fields)
    assert field_set.from_fields_v1(written) == fields
    return [field_set.path_text(path) for path in field_set.paths(fields)]


def managed_fields(data: bytes) -> object:
    entry = json_codec.decode(b'{"manager":"m","operation":"Update","apiVersion":"v1","fieldsV1":' + data + b"}",
                              ManagedFieldsEntry)  # fmt: skip
    sent = ConfigMap(metadata=ObjectMeta(name="a", managed_fields=[entry]), data={"k": "v"})
    tracked = _MANAGER[ConfigMap].track_update(sent, None, "fuzzer", Time(1))
    return _MANAGER[ConfigMap].apply(tracked, {"apiVersion": "v1", "kind": "ConfigMap"}, "m", Time(2), force=True)


# ------------------------------------------------------------------ what stands in the URL and in headers


def accept(data: bytes) -> object:
    header = text_of(data)
    negotiation.for_error(header[: negotiation.MAX_ACCEPT_BYTES], pretty=False)
    negotiation.check_routed(header, streams=True)
    return [negotiation.negotiate(header[: negotiation.MAX_ACCEPT_BYTES], use) for use in ("object", "list", "watch")]


def query(data: bytes) -> object:
    query = Query(target_of(data))
    request_info.parse("GET", "/api/v1/namespaces/a/configmaps", query)
    results: list[object] = []
    refused: APIStatusError | None = None
    for read in (
        query_options.create_options,
        query_options.update_options,
        lambda query: query_options.patch_options(query, apply=True),
        lambda query: query_options.delete_options(query, None),
        lambda query: query_options.list_options(query, watch=True),
        lambda query: query_options.list_options(query, watch=False),
    ):
        try:
            results.append(read(query))
        except APIStatusError as err:
            refused = err
    if refused is not None:
        raise refused
    return results


def path(data: bytes) -> object:
    path, _, query = target_of(data).partition("?")
    return [request_info.parse(method, path, Query(query)) for method in ("GET", "DELETE", "PATCH", "X")]


def impersonated(data: bytes) -> object:
    """Headers one a line."""
    found: dict[str, list[str]] = {}
    for line in text_of(data).split("\n"):
        name, _, value = line.partition(":")
        found.setdefault(name.strip().lower(), []).append(value.strip())
    wanted = impersonation.requested(found)
    return wanted and impersonation.resulting_user(wanted)


_SIGNING = SigningKeys(keys.load_pem((FIXTURES / "ca-key.pem").read_bytes()))
JWT = _SIGNING.sign({"iss": "here", "aud": ["here"], "exp": 1, "nbf": 0, "iat": 0, "kubernetes.io": {}}).encode()


def token(data: bytes) -> object:
    text = text_of(data)
    token = bearer.bearer_token_of(text) or text
    _unverified_issuer(token)
    return _SIGNING.verified(token)


_RECOVERED, _NEXT, _OF_REQUEST = (keys.generate(keys.KeyAlgorithm.ECDSA_P256) for _ in range(3))
_RECOVERY_CA = authority.create_authority("ca", _RECOVERED, now=NOW)
_ENDED = authority.issue_leaf(
    _RECOVERY_CA,
    authority.LeafSpec(common_name="system:node:a", organizations=("system:nodes",), purposes=("client auth",)),
    _OF_REQUEST,
    now=NOW,
)
RECOVERY_ANSWER = msgspec.json.encode(
    recovery_proof.answer(
        "a",
        "challenge",
        [_ENDED],
        _OF_REQUEST,
        build_request(_OF_REQUEST, Subject(common_name="system:node:a", organizations=("system:nodes",))),
        (_RECOVERED, _NEXT),
    )
)


def recovery_answer(data: bytes) -> object:
    given = msgspec.json.decode(data, type=recovery_proof.Answer)
    later = _ENDED.not_after + dt.timedelta(days=1)
    anchors = TrustAnchors([_RECOVERY_CA.certificate])
    return recovery_proof.verify_answer(given, anchors, now=later, max_age=dt.timedelta(days=2))


def label_selector(data: bytes) -> object:
    found = selectors.parse_label_selector(text_of(data))
    assert selectors.parse_label_selector(str(found)) == found
    return found.matches({"a": "1"})


def field_selector(data: bytes) -> object:
    found = selectors.parse_field_selector(text_of(data))
    return found.matches({"metadata.name": "a"})


def continue_token(data: bytes) -> object:
    found = paging.decode(text_of(data))
    return paging.decode(found.encode())


# ------------------------------------------------------------------ certificates

_ANCHORS = TrustAnchors(x509_certificate.parse_bundle((FIXTURES / "ca.pem").read_bytes()))


def certificate(data: bytes) -> object:
    return identify(verify_presented([data], _ANCHORS, now=NOW)[0])


def certificates(data: bytes) -> object:
    found = x509_certificate.parse_bundle(data)
    return identify(verify_presented([each.contents for each in found], _ANCHORS, now=NOW)[0])


def request(data: bytes) -> object:
    found = x509_request.parse_der(data)
    x509_request.verify_signature(found)
    return found


def signed_document(data: bytes) -> object:
    found = cms.parse(data)
    assert len(found.content) <= len(data)
    return found


def signed_documents() -> list[bytes]:
    """Of a cloud: with and without attributes and certificates, with RSA and DSA."""
    names = ("aws-iid-001", "aws-iid-004", "aws-iid-008", "azure-attested-document-005")
    given = [json.loads((FIXTURES.parent / "evidence" / f"ev-{name}.json").read_text())["given"] for name in names]
    forms = [next(text for name, text in each.items() if name in ("rsa2048", "pkcs7", "signature")) for each in given]
    return [base64.b64decode(each) for each in forms]


_EC2_NOW = dt.datetime(2026, 11, 22, 6, tzinfo=dt.UTC)
_AWS = [
    json.loads((FIXTURES.parent / "evidence" / f"ev-aws-{name}.json").read_text()) for name in ("iid-004", "sts-009")
]


def aws_proofs() -> list[bytes]:
    """A document with a call."""
    document, call = (each["given"] for each in _AWS)
    text = base64.b64decode(document["document_b64"]).decode()
    return [msgspec.json.encode({"document": text, "signature": document["rsa2048"], "request": call["request"]})]


def aws_proof(data: bytes) -> object:
    """As the verifier reads it, up to the call."""
    proof = documents.decode(data, aws_evidence.Proof, "the proof of aws")
    given, now = _AWS[1]["given"], _EC2_NOW
    if proof.request is not None:
        expected = next(text for name, text in given["request"]["headers"].items() if name.startswith("X-Node"))
        sts.verify_request(proof.request, hosts=given["allowed_hosts"], expected=expected, now=now)
    if proof.token:
        sts.url_of_token(proof.token)
    known = {each["region"]: each["pem"] for each in _AWS[0]["roots"] if each["form"] == "rsa2048"}

    def certificates(region: str, _form: aws_evidence.Form) -> list[x509_certificate.Certificate]:
        return [x509_certificate.parse_pem(known[region].encode())] if region in known else []

    accounts = _AWS[0]["given"]["accounts"]
    document = proof.document.encode()
    return verify_document(document, proof.form, proof.signature, certificates, accounts=accounts, now=now)


def ec2_answers() -> list[bytes]:
    return [aws.reservations([aws.Instance(tags={"a": "b"})]).encode(), aws.reservations([]).encode()]


def pem_request(data: bytes) -> object:
    found = x509_request.parse_pem(data)
    x509_request.verify_signature(found)
    return found


def fixtures(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(FIXTURES.glob(pattern))]


EMPTY_BLOCK = b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
CLIENT_PAIR = (FIXTURES / "ca.pem").read_bytes() + b"\0" + (FIXTURES / "ca-key.pem").read_bytes()


# What ssh-keygen has made: a certificate of a host, and lists that revoke it.
_SSH = json.loads((FIXTURES.parent / "ssh_revocation.json").read_text())
SSH_TYPE, _encoded = _SSH["certificate"].split()[:2]
SSH_CERTIFICATE = base64.b64decode(_encoded)
SSH_REVOCATIONS = [base64.b64decode(each["krl_b64"]) for each in _SSH["lists"].values()]
SSH_SIGNATURE = sshsig.Signature(public_key=b"k", namespace="n", reserved=b"", hash_name="sha512", signature=b"s" * 83)


def client_pair(data: bytes) -> object:
    """Certificate and key with a zero byte between them."""
    certificate, _, key = data.partition(b"\0")
    check_pair(certificate, key)
    return certificate


# ------------------------------------------------------------------ what other servers answer

EXEC_VERSION = "client.authentication.k8s.io/v1"
EXEC_CREDENTIAL = (
    b'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t",'
    b'"expirationTimestamp":"2031-01-01T00:00:00Z"}}'
)

KUBECONFIG = cluster_info.build_kubeconfig(
    cluster_info.ClusterInfo("https://10.0.0.1:6443", (FIXTURES / "ca.pem").read_bytes())
).encode()
REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"status":'
    b'{"code":403,"message":"no","details":{"causes":[{"reason":"x"}]}},"patchType":"JSONPatch","patch":"W10=",'
    b'"auditAnnotations":{"a":"b"},"warnings":["w"]}}'
)


APPROVAL = (
    b'{"apiVersion":"approval.kubevouch.io/v1alpha1","kind":"CertificateApprovalReview","response":{"uid":"u",'
    b'"outcome":"approve","reason":"Known","message":"m"}}'
)


DNS_ANSWER = bytes.fromhex("000781800001000100000000026e310265780000010001") + bytes.fromhex(
    "c00c000100010000003c00040a000009"
)


def dns_answered(data: bytes) -> object:
    return dns_message.answers(data, 7, "n1.ex", dns_message.A)


def approval_answered(data: bytes) -> object:
    return approval_review.verdict("webhook/w", "u", data)


def reviewed(data: bytes) -> object:
    answer = review.verify_response(msgspec.json.decode(data), "u", "v1", mutating=True)
    tellable(review.rejection("w", answer.refusal()))
    return answer.patch and json_patch.apply(_TREE, json_patch.decode(answer.patch))


def signed_cluster_info(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    entries = {"kubeconfig": text, "jws-kubeconfig-abcdef": text[:200]}
    try:
        jws.verify_cluster_info(entries, "abcdef", "0123456789abcdef")
    except PKIError:
        pass
    info = cluster_info.parse_kubeconfig(text)
    return x509_certificate.parse_bundle(info.certificate_authority_data)


def kubeconfig_file(data: bytes) -> object:
    found = kubeconfig.load(data)
    return kubeconfig.load(kubeconfig.dump(found))


def frames(framer: type[JSONFramer] | type[ProtobufFramer], media: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        cut = framer(1 << 20)
        half = len(data) // 2
        frames = cut.feed(data[:half]) + cut.feed(data[half:])
        return [codec.decode_event(catalog.CONFIG_MAPS, frame, media) for frame in frames]

    return parse


# ------------------------------------------------------------------ the ledger

_LEDGER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
_LEDGER = checkpoints.verifier_key("kubevouch.io/ledger/0123", _LEDGER_KEY)
_LEDGER_ENTRY = ledger_entries.encode(ledger_entries.Entry(kind="issued", at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)))
_LEDGER_STATE = checkpoints.checkpoint_of(
    _LEDGER.name, 1, proofs.leaf_hash(_LEDGER_ENTRY), checkpoints.CHECKPOINT, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
)
CHECKPOINT = _LEDGER_STATE.text()
CHECKPOINT_NOTE = checkpoints.sign(CHECKPOINT, _LEDGER.name, _LEDGER_KEY)
INCLUSION = proof_text.inclusion_text(_LEDGER_ENTRY, 0, [], CHECKPOINT_NOTE)


def signed_checkpoint(data: bytes) -> object:
    """What is read of a note; of text that is none, as it is read once it was signed."""
    text = text_of(data)
    note = text if "\n\n" in text else checkpoints.sign(text, _LEDGER.name, _LEDGER_KEY)
    return checkpoints.verified(note, _LEDGER)


def ledger_proof(data: bytes) -> object:
    text = text_of(data)
    if proof_text.is_consistency(text):
        return proof_text.verified_consistency(text, _LEDGER, _LEDGER_STATE)
    return proof_text.verified_inclusion(text, _LEDGER)


# ------------------------------------------------------------------ what other CAs answer

_LEAF = authority.issue_leaf(
    _RECOVERY_CA,
    authority.LeafSpec(common_name="a.example", purposes=("server auth",)),
    keys.generate(KeyAlgorithm.ECDSA_P256),
    now=NOW,
)
_EXPECTED = Expectation(
    public_key=_LEAF.public_key,
    subject=_LEAF.subject,
    alt_names=_LEAF.meaning.alt_names,
    usages=resolve(("digital signature", "key encipherment", "server auth")),
    not_after=_LEAF.not_after,
)
ISSUED_ELSEWHERE = _LEAF.pem() + _RECOVERY_CA.certificate.pem()


def issued_elsewhere(data: bytes) -> object:
    """Whatever comes: it is for that key, or refused."""
    anchors = TrustAnchors([_RECOVERY_CA.certificate])
    chain = verify_issued_elsewhere(data, _EXPECTED, anchors, now=NOW)
    assert chain[0].public_key.canonical_info == _LEAF.public_key.canonical_info
    return chain


# ------------------------------------------------------------------ what a TPM writes

_TPM = [json.loads(path.read_text())["given"] for path in sorted((FIXTURES.parent / "evidence").glob("ev-tpm-*.json"))]


def _of_tpms(name: str) -> list[bytes]:
    found = {base64.b64decode(given[f"{name}_b64"]) for given in _TPM if given.get(f"{name}_b64")}
    return sorted(found, key=len)


TPM_STRUCTURES = [
    seeds[place]
    for name in ("attest", "key_public", "ek_public", "signature_tss", "creation_data", "credential_blob")
    for seeds in [_of_tpms(name)]
    for place in (0, -1)
]
TPM_EVENT_LOGS = _of_tpms("event_log")[:2]
TPM_EK_CERTIFICATES = _of_tpms("ek_certificate")[::4]


def tpm_structures(data: bytes) -> None:
    """As every structure that it could be. A public area is written again as it came, or it would have another name."""
    readers: list[Callable[[bytes], object]] = [
        lambda octets: attest.parse(octets, attest.CERTIFY),
        lambda octets: attest.parse(octets, attest.QUOTE),
        lambda octets: attest.parse(octets, attest.CREATION),
        attest.creation_data,
        tpm_signatures.plain,
        credential.parse_file,
        tpm_public,
    ]
    for read in readers:
        with contextlib.suppress(StructureError):
            read(data)


def tpm_public(data: bytes) -> None:
    read = public_area.parse(data)
    assert read.encode() == data
    read.name()
    read.spki()


def tpm_event_log(data: bytes) -> object:
    log = event_log.parse(data)
    return [log.secure_boot, *(log.replay(bank) for bank in log.banks)]


def tpm_ek_certificate(data: bytes) -> object:
    """Whatever stands in an index: what was read is of the bytes that came."""
    contents = ek_certificate.from_nv(data)
    read = ek_certificate.parse(contents)
    assert read.contents == contents
    assert read.signed in contents
    with contextlib.suppress(DeviceChainError):
        ek_certificate.verify(read, [], TrustAnchors([]), NOW)
    return read


# ------------------------------------------------------------------ what machines of clouds show

_CLOUDS = {
    kind: [json.loads(path.read_text()) for path in sorted((FIXTURES.parent / "evidence").glob(f"ev-{kind}-*.json"))]
    for kind in ("gcp-identity-token", "azure-managed-identity", "azure-attested-document")
}
_CLOUD_KEYS = {
    kind: KeySet.parse(json.dumps(cases[0]["roots"][0]).encode())
    for kind, cases in _CLOUDS.items()
    if "token" in cases[0]["given"]
}
CLOUD_TOKENS = [case["given"]["token"].encode() for case in _CLOUDS["gcp-identity-token"][:3]]
CLOUD_PAYLOADS = [
    base64.urlsafe_b64decode(f"{case['given']['token'].split('.')[1]}===")
    for kind in _CLOUD_KEYS
    for case in _CLOUDS[kind][:2]
]
ATTESTED_DOCUMENTS = [case["given"]["signature"].encode() for case in _CLOUDS["azure-attested-document"][:2]]
GCE_IDENTITIES = [
    bytes.fromhex(
        "30400c0a75732d65617374392d7a020562c6d1a9b20c0964656d6f2d70726f6a02071b5b361667b8be0c09766d2d626c75652d33"
        "a00c300aa003020102a1030101ff"
    )
]
# Of a certificate; what the block says is looked at elsewhere.
GKE_REQUESTS = [
    (FIXTURES / "csr-client-worker-7.pem").read_bytes()
    + pem.encode("VM IDENTITY", b'{"zone":"z","id":1,"name":"n","project_id":2,"project_name":"p"}')
    + pem.encode("ATTESTATION DATA", b"\xffTCG")
    + pem.encode("ATTESTATION SIGNATURE", b"x")
]


def cloud_token(data: bytes) -> None:
    """Every token that a key has signed is one of those that were there before."""
    text = data.decode("latin-1")
    for published in _CLOUD_KEYS.values():
        with contextlib.suppress(RefusedEvidenceError):
            published.payload(text)
            assert data in CLOUD_TOKENS


def cloud_claims(data: bytes) -> None:
    """As what either cloud may have signed."""
    readers: list[Callable[[], object]] = [
        lambda: identity_token.verify(data, audience="a", projects=["demo-proj"], now=NOW),
        lambda: managed_identity.verify(data, tenants=["11111111-2222-3333-4444-555555555555"], now=NOW),
        lambda: attested_document.verify_content(data, nonce="n", subscriptions=["s"], now=NOW),
        lambda: gke.parse_identity(data, ["p"]),
        lambda: KeySet.parse(data),
    ]
    for read in readers:
        with contextlib.suppress(RefusedEvidenceError, KeySetError):
            read()


def cloud_document(data: bytes) -> object:
    opened = attested_document.open_document(Document("pkcs7", data.decode("latin-1")))
    return [verify_place(url, FOLDERS) for url in information_access.ca_issuers(opened.signer.extensions)]


def gce_identity(data: bytes) -> object:
    found = instance_identity.parse(data)
    instance_identity.verify(found, project_number=found.project_number)
    return found


def evidence_blocks(data: bytes) -> object:
    """What is behind a request: the same proofs, however they came."""
    proofs = evidence_request.parse(data)
    assert len(proofs) <= evidence_request.MAX_PROOFS
    return proofs
