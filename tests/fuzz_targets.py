"""Every parser that faces the network, as one function of bytes, for the property tests and for `make fuzz`.

A target may raise only what its parser promises; anything else is a finding.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

import certificate_differences as differences
import differing_certificates
import fuzz_encryption
import fuzz_parsers as parsers
import fuzz_possession
import http_differential
from fuzz_parsers import (
    CLIENT_PAIR,
    CONFIG_MAP,
    CSR,
    DEEP,
    EMPTY_BLOCK,
    EXEC_CREDENTIAL,
    EXEC_VERSION,
    FIXTURES,
    JSON_WORDS,
    JWT,
    KUBECONFIG,
    NODE,
    PATCH_WORDS,
    REVIEW,
    YAML_WORDS,
    tellable,
)
from kubevouch.admission.dynamic import review
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.attestation.aws import sts
from kubevouch.attestation.aws.ec2 import instance_in
from kubevouch.attestation.http import Answer
from kubevouch.attestation.interface import RefusedEvidenceError, UnavailableError
from kubevouch.authentication.interface import AuthenticationError
from kubevouch.client import codec, execplugin, headers
from kubevouch.client.frames import FrameError, JSONFramer, ProtobufFramer
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, client_context
from kubevouch.config import config_file, encryption_config, kubeconfig
from kubevouch.config.config_file import ConfigFileError
from kubevouch.ledger.checkpoints import CheckpointError
from kubevouch.ledger.proofs import ProofError
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import selectors
from kubevouch.machinery.writing import field_set
from kubevouch.pki import certificate_chain, keys
from kubevouch.pki.errors import PKIError, RecoveryProofError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.ssh import certificate as ssh_certificate
from kubevouch.pki.ssh import krl, sshsig
from kubevouch.pki.x509 import ocsp, x509_certificate
from kubevouch.policy.approval_review import ReviewError
from kubevouch.records import bootstrap_tokens, cluster_info
from kubevouch.registry.paging import ContinueToken
from kubevouch.server import negotiation
from kubevouch.signers import pkcs11_uri
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.util.dns_message import DNSMessageError


@dataclass(frozen=True)
class Target:
    """A parser with what it may raise and inputs that it accepts, from which fuzzers start."""

    parse: Callable[[bytes], object]
    refuses_with: tuple[type[Exception], ...]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    """What the grammar is made of, to insert."""

    def run(self, data: bytes) -> None:
        """Raises whatever is a finding."""
        try:
            self.parse(data)
        except APIStatusError as err:
            if APIStatusError not in self.refuses_with or not refuses(err):
                raise
            tellable(err)
        except self.refuses_with:
            pass


def refuses(err: APIStatusError) -> bool:
    """The client's mistake, as Kubernetes tells it: it answers some patches with 500, in words but without a reason."""
    return 400 <= err.code < 500 or (err.code == 500 and err.status.reason == "" and err.status.message != "")


_EVENT = b'{"type":"ADDED","object":' + CONFIG_MAP + b"}"
REFUSAL = (APIStatusError,)
# What client.webhook takes from msgspec.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

TARGETS: dict[str, Target] = {
    # What others can write into an etcd, and what people write.
    "encrypted-value": Target(
        fuzz_encryption.parse_value, (TransformError,), fuzz_encryption.VALUES, fuzz_encryption.WORDS
    ),
    "encryption-configuration": Target(
        encryption_config.load, (ConfigFileError,), fuzz_encryption.CONFIGURATIONS, YAML_WORDS
    ),
    "json-configmap": Target(parsers.body_of(catalog.CONFIG_MAPS, negotiation.JSON), REFUSAL, [CONFIG_MAP], JSON_WORDS),
    "json-csr": Target(
        parsers.body_of(catalog.CERTIFICATE_SIGNING_REQUESTS, negotiation.JSON), REFUSAL, [CSR], JSON_WORDS
    ),
    "json-node": Target(parsers.body_of(catalog.NODES, negotiation.JSON), REFUSAL, [NODE], JSON_WORDS),
    "yaml-node": Target(
        parsers.body_of(catalog.NODES, negotiation.YAML),
        REFUSAL,
        [NODE, b"kind: Node\nmetadata: {name: n, labels: {a: 'b'}}\nspec:\n  taints:\n  - key: a\n"],
        YAML_WORDS,
    ),
    "protobuf-configmap": Target(
        parsers.body_of(catalog.CONFIG_MAPS, negotiation.PROTOBUF),
        REFUSAL,
        [parsers.as_protobuf(catalog.CONFIG_MAPS, CONFIG_MAP)],
        (b"k8s\x00", b"\x0a", b"\x12", b"\xff\xff\xff\xff\x0f", b"\x80", b"\x1a\x00"),
    ),
    "protobuf-node": Target(
        parsers.body_of(catalog.NODES, negotiation.PROTOBUF),
        REFUSAL,
        [parsers.as_protobuf(catalog.NODES, NODE)],
        (b"\x0a", b"\xff"),
    ),
    "protobuf-csr": Target(
        parsers.body_of(catalog.CERTIFICATE_SIGNING_REQUESTS, negotiation.PROTOBUF),
        REFUSAL,
        [parsers.as_protobuf(catalog.CERTIFICATE_SIGNING_REQUESTS, CSR)],
        (b"\x0a", b"\xff"),
    ),
    "json-patch": Target(
        parsers.json_patched,
        REFUSAL,
        [
            b'[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"move","from":"/spec","path":"/x"}]',
            b'[{"op":"test","path":"/spec/taints/0/key","value":"a"},{"op":"remove","path":"/status/addresses/0"}]',
        ],
        PATCH_WORDS,
    ),
    "merge-patch": Target(
        parsers.merge_patched,
        (*REFUSAL, json_codec.UnmarshalError),
        [b'{"metadata":{"labels":{"a":null,"b":"c"}}}'],
        PATCH_WORDS,
    ),
    "strategic-merge-patch": Target(
        parsers.strategically_patched,
        (*REFUSAL, json_codec.UnmarshalError),
        [
            b'{"spec":{"taints":[{"key":"b","effect":"NoExecute"}],"$setElementOrder/taints":[{"key":"b"}]}}',
            b'{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"labels":{"$patch":"replace","c":"d"}}}',
            b'{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}',
        ],
        PATCH_WORDS,
    ),
    "apply-patch": Target(
        parsers.applied,
        (APIStatusError, ValueError),
        [
            NODE,
            b"apiVersion: v1\nkind: Node\nmetadata: {name: n}\nspec:\n  taints:\n  - {key: a, effect: NoSchedule}\n",
        ],
        (*YAML_WORDS, *JSON_WORDS),
    ),
    "fields-v1": Target(
        parsers.fields_v1,
        (field_set.FieldSetError,),
        [b'{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"k:{\\"key\\":\\"a\\"}":{},"v:1":{},"i:0":{}}}'],
        (*JSON_WORDS, b'"f:', b'"k:{', b'"v:', b'"i:', b'".":{}', b'"k:{\\"a\\":1.5}":{}', b'"v:\\"x\\""'),
    ),
    "managed-fields": Target(
        parsers.managed_fields,
        (*REFUSAL, ValueError),
        [b'{"f:data":{"f:k":{}}}'],
        (*JSON_WORDS, b'"f:', b'"k:{', b'"v:'),
    ),
    "label-selector": Target(
        parsers.label_selector,
        (selectors.SelectorError,),
        [b"a=b,c!=d,e in (f,g),!h,i notin (j),k>1,l"],
        (b" in ", b" notin ", b"(", b")", b",", b"=", b"==", b"!=", b"!", b"<", b">", b"\0", b" ", b"/"),
    ),
    "field-selector": Target(
        parsers.field_selector,
        (selectors.SelectorError,),
        [b"metadata.name=a,metadata.namespace!=b", b"a=b\\,c"],
        (b"\\", b",", b"=", b"!="),
    ),
    "continue-token": Target(
        parsers.continue_token,
        REFUSAL,
        [ContinueToken(7, "default/a\0").encode().encode(), b"eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"],
        (b"eyJ", b"=", b"-", b"_", base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"')),
    ),
    "accept": Target(
        parsers.accept,
        REFUSAL,
        [b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", b"application/yaml;q=0.5, */*;q=nan"],
        (b"*/*", b"application/vnd.kubernetes.protobuf", b";as=PartialObjectMetadataList", b";q=", b",", b";", b"inf"),
    ),
    "query": Target(
        parsers.query,
        REFUSAL,
        [
            b"limit=5&continue=x&watch=1&timeoutSeconds=9&resourceVersion=0&resourceVersionMatch=NotOlderThan",
            b"dryRun=All&fieldManager=me&fieldValidation=Strict&force=true&propagationPolicy=Orphan&gracePeriodSeconds=0",
            b"fieldManager=",
        ],
        (b"%", b"%01", b"%ff", b"%00", b"&", b";", b"=", b"9" * 30, b"-1", b"sendInitialEvents=true", b"+"),
    ),
    "http": Target(http_differential.compare, (), http_differential.SEEDS, http_differential.WORDS),
    "path": Target(
        parsers.path,
        (),
        [b"/api/v1/namespaces/a/configmaps/b/status?watch=1", b"/apis/g/v1/watch/nodes/x"],
        (b"/", b"//", b"%2f", b"..", b"watch/", b"namespaces/", b"?fieldSelector=metadata.name%3Dx"),
    ),
    "impersonation": Target(
        parsers.impersonated,
        REFUSAL,
        [b"Impersonate-User: alice\nImpersonate-Group: a\nImpersonate-Extra-a%2Fb: c", b"impersonate-uid: 7"],
        (b"Impersonate-Extra-", b"%", b"%zz", b"\n", b"system:serviceaccount:a:b", b"system:"),
    ),
    "token": Target(
        parsers.token,
        (AuthenticationError,),
        [
            b"Bearer " + JWT,
            JWT,
            b"Bearer abcdef.0123456789abcdef",
            b"Bearer a." + base64.urlsafe_b64encode(DEEP) + b".b",
        ],
        (b".", b"..", b"eyJhbGciOiJub25lIn0.", b"eyJhbGciOiJIUzI1NiIsImNyaXQiOlsiYjY0Il0sImI2NCI6ZmFsc2V9.", b"="),
    ),
    "bootstrap-token": Target(
        lambda data: bootstrap_tokens.parse_token(parsers.text_of(data)),
        (bootstrap_tokens.BootstrapTokenError,),
        [b"abcdef.0123456789abcdef"],
        (b".", b"\n"),
    ),
    "certificate": Target(
        parsers.certificate,
        (PKIError,),
        [each.contents for each in x509_certificate.parse_bundle((FIXTURES / "cert-chain.pem").read_bytes())],
        (b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x02\x01\x00", b"\x06\x03\x55\x1d\x11", b"\xa3", b"\x1c\x04"),
    ),
    "ca-bundle": Target(
        lambda data: client_context(ClientTLS(ca_bundle=data)),
        (ClientConfigurationError,),
        parsers.fixtures("ca.pem"),
        (b"-----BEGIN CERTIFICATE-----\n", b"\n-----END CERTIFICATE-----\n", EMPTY_BLOCK),
    ),
    "client-pair": Target(
        parsers.client_pair, (ClientConfigurationError,), [CLIENT_PAIR], (b"-----BEGIN CERTIFICATE-----\n", EMPTY_BLOCK)
    ),
    "exec-credential": Target(
        lambda data: execplugin.parse_output(data, EXEC_VERSION),
        (execplugin.PluginError,),
        [EXEC_CREDENTIAL],
        JSON_WORDS,
    ),
    "pem-bundle": Target(
        parsers.certificates,
        (PKIError,),
        parsers.fixtures("cert-*.pem"),
        (
            b"-----BEGIN CERTIFICATE-----\n",
            b"\n-----END CERTIFICATE-----\n",
            b"a: b\n",
            b"\r\n",
            b"====",
        ),
    ),
    "issued-elsewhere": Target(parsers.issued_elsewhere, (PKIError,), [parsers.ISSUED_ELSEWHERE]),
    "pkcs11-uri": Target(
        lambda data: pkcs11_uri.parse(data.decode("latin-1")),
        (PKIError,),
        [b"pkcs11:token=a%20b;serial=1;id=%01%ff;slot-id=3?module-path=/m.so&pin-source=file:/p"],
        (b"pkcs11:", b"object=", b"%ff", b"?pin-value=", b";", b"&"),
    ),
    "signed-document": Target(
        parsers.signed_document,
        (PKIError,),
        parsers.signed_documents(),
        (b"\x30\x80", b"\x24\x80", b"\xa0\x80", b"\0\0", b"\xa0\x00", b"\x31\x00", b"\x04\x82\xff\xff"),
    ),
    "aws-proof": Target(
        parsers.aws_proof,
        (RefusedEvidenceError,),
        parsers.aws_proofs(),
        (*JSON_WORDS, b"&Action=", b"%00", b";", b"https://", b"\\u0000", b"\\ud800", b"X-Amz-"),
    ),
    "ec2-answer": Target(
        lambda data: instance_in(Answer(200, data), "i-0abc000000000000a"),
        (UnavailableError,),
        parsers.ec2_answers(),
        (b"<item>", b"</item>", b"<a>" * 200, b"<!", b"&lt;", b"&#0;", b"<?xml encoding='x'?>", b"xmlns=''"),
    ),
    "sts-answer": Target(
        lambda data: sts.caller_in(200, data),
        (RefusedEvidenceError, UnavailableError),
        [
            b'{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Arn":"arn:aws:sts::111122223333:assumed-role/r/x7"}}}'
        ],
        JSON_WORDS,
    ),
    "certificate-chain": Target(certificate_chain.verify_certificate_chain, (PKIError,), parsers.fixtures("*.pem")),
    "csr": Target(
        parsers.request, (PKIError,), parsers.fixtures("csr.der"), (b"\xa0\x80", b"\x30\x80", b"\x06\x09", b"\x31\x00")
    ),
    "pem-csr": Target(
        parsers.pem_request, (PKIError,), parsers.fixtures("csr-*.pem"), (b"-----BEGIN CERTIFICATE REQUEST-----\n",)
    ),
    # What goes in is put between a signature and its key, and read by others too; where they disagree is a finding.
    "csr-differences": Target(
        lambda data: differences.compare_request(differences.signed(data)),
        (PKIError,),
        differing_certificates.REQUESTS,
        differing_certificates.WORDS,
    ),
    "certificate-differences": Target(
        lambda data: differences.compare_certificate(differences.signed(data)),
        (PKIError,),
        differing_certificates.CERTIFICATES,
        differing_certificates.WORDS,
    ),
    "ssh-certificate": Target(
        lambda data: ssh_certificate.parse(f"{parsers.SSH_TYPE} {base64.b64encode(data).decode()}"),
        (PKIError,),
        [parsers.SSH_CERTIFICATE],
        (b"\0\0\0\x07ssh-rsa", b"\0\0\0\x13ecdsa-sha2-nistp256\0\0\0\x08nistp256", b"\0\0\0\0", b"\xff\xff\xff\xff"),
    ),
    "ssh-signature": Target(
        lambda data: sshsig.parse(parsers.text_of(data)),
        (PKIError,),
        [sshsig.armour(parsers.SSH_SIGNATURE).encode()],
        (b"-----BEGIN SSH SIGNATURE-----\n", b"U1NIU0lH", b"\n"),
    ),
    "ssh-revocation": Target(
        krl.parse,
        (PKIError,),
        parsers.SSH_REVOCATIONS,
        (b"\x01", b"\x20\0\0\0\x08", b"\x22\0\0\0\x0c", b"\0\0\0\0", b"\xff\xff\xff\xff"),
    ),
    "tpm-structures": Target(
        parsers.tpm_structures,
        (),
        parsers.TPM_STRUCTURES,
        (
            b"\xff\xffTCG\x80",
            b"\xffTCG\x80\x17",
            b"\0\x0b",
            b"\0\x10",
            b"\0\x20",
            b"\xff\xff",
            b"\0\0\0\1\0\x0b\3\xff\0\0",
        ),
    ),
    "tpm-event-log": Target(
        parsers.tpm_event_log,
        (PKIError,),
        parsers.TPM_EVENT_LOGS,
        (b"StartupLocality\0", b"\3\0\0\0", b"\4\0\0\0", b"\xff\xff\xff\xff", b"\x0b\0", b"Spec ID Event03\0"),
    ),
    "tpm-ek-certificate": Target(
        parsers.tpm_ek_certificate,
        (PKIError,),
        parsers.TPM_EK_CERTIFICATES,
        (b"\x10\1\0", b"\0" * 16, b"\xff" * 16, b"\2\1\xff", bytes.fromhex("06092a864886f70d010107")),
    ),
    "cloud-token": Target(
        parsers.cloud_token, (), parsers.CLOUD_TOKENS, (b".", b"=", b"eyJhbGciOiJub25lIn0", b"-", b"_")
    ),
    "cloud-claims": Target(
        parsers.cloud_claims,
        (),
        parsers.CLOUD_PAYLOADS,
        (*JSON_WORDS, b'"exp":', b'"iat":1e400', b'"google":{"compute_engine":', b'"keys":[', b"9" * 40),
    ),
    "cloud-document": Target(
        parsers.cloud_document, (RefusedEvidenceError,), parsers.ATTESTED_DOCUMENTS, (b"MII", b"=", b"AAAA", b"\n")
    ),
    "gce-identity": Target(
        parsers.gce_identity,
        (RefusedEvidenceError,),
        parsers.GCE_IDENTITIES,
        (b"\x02\x09\x00", b"\xa0\x0c", b"\x30\x80"),
    ),
    "possession-proof": Target(
        fuzz_possession.parse, (RefusedEvidenceError,), fuzz_possession.SEEDS, (*JSON_WORDS, *fuzz_possession.WORDS)
    ),
    "evidence-blocks": Target(
        parsers.evidence_blocks,
        (RefusedEvidenceError,),
        parsers.GKE_REQUESTS,
        (
            b"-----BEGIN ",
            b"-----END ",
            b"KUBELET AUTHENTICATOR ATTESTATION PROVIDER-----\n",
            b"KUBELET AUTHENTICATOR ATTESTATION DATA-----\n",
            b"VM IDENTITY-----\n",
        ),
    ),
    "private-key": Target(
        keys.load_pem,
        (PKIError,),
        [(FIXTURES / "ca-key.pem").read_bytes(), keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256))],
    ),
    "recovery-answer": Target(
        parsers.recovery_answer, (RecoveryProofError, *UNREADABLE), [parsers.RECOVERY_ANSWER], JSON_WORDS
    ),
    "ocsp-request": Target(
        ocsp.parse_request,
        (PKIError,),
        [
            bytes.fromhex(
                "3051304f304d304b3049300906052b0e03021a050004145dfdd1c7cd21bf43fd3ba74fddc0000a9d415e030414c490c4da9efd8adfed33"
                "bd8f3d40af41cfed19bd02106bdab38902866184cb3e5986f1480a0e"
            )
        ],
        [bytes.fromhex("06092b0601050507300102"), b"\xa2\x1b\x30", b"\x04\x12\x04\x10", b"\x30\x49"],
    ),
    "dns-answer": Target(
        parsers.dns_answered, (DNSMessageError,), [parsers.DNS_ANSWER], [b"\xc0\x0c", b"\x00\x01", b"\x03abc"]
    ),
    "approval-review": Target(parsers.approval_answered, (ReviewError,), [parsers.APPROVAL], PATCH_WORDS),
    "admission-review": Target(
        parsers.reviewed, (review.InvalidResponse, APIStatusError, *UNREADABLE), [REVIEW], PATCH_WORDS
    ),
    "kubeconfig": Target(
        parsers.kubeconfig_file, (kubeconfig.KubeconfigError,), [KUBECONFIG], (*YAML_WORDS, b"users:\n- name: x\n")
    ),
    "cluster-info": Target(
        parsers.signed_cluster_info,
        (cluster_info.ClusterInfoError, PKIError),
        [KUBECONFIG],
        (*YAML_WORDS, b"clusters: "),
    ),
    "config-file": Target(
        lambda data: config_file.decode(data, "CertificateSigningRequest", {"a/v1": CertificateSigningRequest}),
        (config_file.ConfigFileError,),
        [b"apiVersion: a/v1\nkind: CertificateSigningRequest\nspec: {usages: [a]}\n"],
        YAML_WORDS,
    ),
    "answer-json": Target(
        parsers.answer_as(catalog.CONFIG_MAPS, negotiation.JSON),
        (codec.CodecError,),
        [CONFIG_MAP, b'{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"items":[' + CONFIG_MAP + b"]}"],
        JSON_WORDS,
    ),
    "answer-protobuf": Target(
        parsers.answer_as(catalog.CONFIG_MAPS, negotiation.PROTOBUF),
        (codec.CodecError,),
        [parsers.as_protobuf(catalog.CONFIG_MAPS, CONFIG_MAP)],
        (b"k8s\x00", b"\x0a", b"\xff"),
    ),
    "watch-json": Target(
        parsers.frames(JSONFramer, negotiation.JSON), (FrameError, codec.CodecError), [_EVENT * 2], JSON_WORDS
    ),
    "watch-protobuf": Target(
        parsers.frames(ProtobufFramer, negotiation.PROTOBUF),
        (FrameError, codec.CodecError),
        [protobuf.watch_frame("ADDED", parsers.as_protobuf(catalog.CONFIG_MAPS, CONFIG_MAP)), b"\0\0\0\0"],
        (b"\0\0\0", b"\x0a"),
    ),
    "warning-header": Target(
        lambda data: headers.warnings([parsers.text_of(data)]),
        (),
        [b'299 - "a \\"b\\" c"', b'299 - "a", 299 x "b" "date"'],
        (b'"', b"\\", b"299 ", b","),
    ),
    "checkpoint": Target(
        parsers.signed_checkpoint,
        (CheckpointError,),
        [parsers.CHECKPOINT.encode(), parsers.CHECKPOINT_NOTE.encode()],
        (b"\n", b"\n\n", "— ".encode(), b"head ", b"checkpoint "),
    ),
    "ledger-proof": Target(
        parsers.ledger_proof,
        (CheckpointError, ProofError),
        [parsers.INCLUSION.encode(), b"old 1\n\n" + parsers.CHECKPOINT_NOTE.encode()],
        (b"\n", b"\n\n", b"index ", b"extra ", b"old ", b"AAAA"),
    ),
}
