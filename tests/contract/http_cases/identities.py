"""Who a request comes from: minted client certificates or impersonation headers, and the TLS sessions for them."""

from __future__ import annotations

import base64
import datetime as dt
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote

import aiohttp
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from contract.http_cases.case_text import Fixtures
from kubevouch.util.clock import SystemClock

Mode = Literal["auto", "cert", "impersonate"]
CAKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
Headers = list[tuple[str, str]]
Who = tuple[aiohttp.ClientSession, Headers]

# The subject attribute from which kube-apiserver takes a user's uid.
UID_ATTRIBUTE = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
_LONGEST_COMMON_NAME = 64
_ANSWER_SECONDS = 20


class Identities:
    """Turns a case's ``user`` into a client session and headers.

    Args:
        kubeconfig: of a member of system:masters.
        ca_key: of the CA whose client certificates the server accepts; without it everybody is impersonated.
        ca_certificate: that CA's; looked for beside the key and in the kubeconfig when it is not given.
    """

    def __init__(
        self,
        kubeconfig: Path,
        fixtures: Fixtures,
        *,
        ca_key: Path | None = None,
        ca_certificate: Path | None = None,
        mode: Mode = "auto",
    ) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        folder = kubeconfig.absolute().parent
        self.server: str = cluster["server"].rstrip("/")
        self._server_ca = _material(folder, cluster, "certificate-authority")
        self._insecure = bool(cluster.get("insecure-skip-tls-verify", False))
        self._admin_pair = _material(folder, user, "client-certificate"), _material(folder, user, "client-key")
        self._admin_token: str | None = user.get("token")
        self._mode = mode
        self._fixtures = fixtures
        self._sessions: dict[tuple[bytes | None, bytes | None], aiohttp.ClientSession] = {}
        self._minted: dict[tuple[str, tuple[str, ...], str], tuple[bytes, bytes]] = {}
        self._ca = self._find_ca(ca_key, ca_certificate) if ca_key is not None else None

    @property
    def can_mint(self) -> bool:
        return self._ca is not None

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def anonymous(self) -> aiohttp.ClientSession:
        return self._session(None, None)

    def admin(self) -> Who:
        headers = [("Authorization", f"Bearer {self._admin_token}")] if self._admin_token else []
        return self._session(*self._admin_pair), headers

    def of(self, user: dict[str, Any] | str | None, headers: Iterable[str]) -> Who | None:
        """A session and headers for a user, or None when this set-up cannot play it. ``headers``: the request's own."""
        if user == "admin":
            return self.admin()
        if not user or isinstance(user, str) or user["name"] == "system:anonymous":
            return self.anonymous(), []
        name, uid = user["name"], user.get("uid") or ""
        impersonates = any(header.lower().startswith("impersonate-") for header in headers)
        can_certify = self.can_mint and not user.get("extra") and len(name.encode()) <= _LONGEST_COMMON_NAME
        # Nobody has a certificate under these names; they come from tokens, with other effects.
        from_token = name.startswith(("system:serviceaccount:", "system:bootstrap:")) or bool(uid)
        certificate = self._mode == "cert" or (self._mode == "auto" and not from_token)
        via = user.get("via") or ("certificate" if certificate else "impersonation")
        if user.get("via") == "certificate" and not can_certify:
            return None
        if impersonates or via == "certificate":
            if can_certify:
                return self._session(*self._pair_for(name, tuple(user["groups"]), uid)), []
            if impersonates:
                return self.admin() if "system:masters" in user["groups"] else None
        session, own = self.admin()
        return session, [*own, *_impersonation(user)]

    def fixture_session(self, name: str) -> aiohttp.ClientSession:
        """A fixture's certificate; one of the fixtures' CA is issued again by the server's, all else kept."""
        certificate = x509.load_pem_x509_certificate(self._fixtures.read(name))
        key = self._fixtures.read("client-key.pem")
        try:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(self._fixtures.read("ca.pem")))
        except (InvalidSignature, ValueError, TypeError):
            return self._session(certificate.public_bytes(serialization.Encoding.PEM), key)
        builder = (
            x509.CertificateBuilder()
            .subject_name(certificate.subject)
            .public_key(certificate.public_key())
            .serial_number(certificate.serial_number)
            .not_valid_before(certificate.not_valid_before_utc)
            .not_valid_after(certificate.not_valid_after_utc)
        )
        for extension in certificate.extensions:
            if extension.oid != ExtensionOID.AUTHORITY_KEY_IDENTIFIER:
                builder = builder.add_extension(extension.value, extension.critical)
        return self._session(self._sign(builder), key)

    def _find_ca(self, key_path: Path, certificate_path: Path | None) -> tuple[x509.Certificate, CAKey]:
        key = cast(CAKey, serialization.load_pem_private_key(key_path.read_bytes(), None))
        paths = [certificate_path] if certificate_path else [key_path.with_suffix(end) for end in (".crt", ".pem")]
        bundles = [path.read_bytes() for path in paths if path.exists()]
        for bundle in (*bundles, self._server_ca or b""):
            for certificate in x509.load_pem_x509_certificates(bundle) if bundle else ():
                if certificate.public_key() == key.public_key():
                    return certificate, key
        raise SystemExit("no CA certificate found that belongs to --ca-key; use --ca-cert")

    def _session(self, certificate: bytes | None, key: bytes | None) -> aiohttp.ClientSession:
        if (certificate, key) not in self._sessions:
            context = ssl.create_default_context(cadata=self._server_ca.decode() if self._server_ca else None)
            # A kubeconfig's CA need not have a key usage, on which newer Pythons insist.
            context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
            if self._insecure:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if certificate and key:
                with tempfile.NamedTemporaryFile() as file:
                    file.write(certificate + b"\n" + key)
                    file.flush()
                    context.load_cert_chain(file.name)
            self._sessions[certificate, key] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=0),
                timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS),
            )
        return self._sessions[certificate, key]

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        assert self._ca is not None  # callers ask can_mint
        ca, key = self._ca
        digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.issuer_name(ca.subject).sign(key, digest).public_bytes(serialization.Encoding.PEM)

    def _pair_for(self, name: str, groups: tuple[str, ...], uid: str) -> tuple[bytes, bytes]:
        if (name, groups, uid) not in self._minted:
            self._minted[name, groups, uid] = self._mint(name, groups, uid)
        return self._minted[name, groups, uid]

    def _mint(self, name: str, groups: tuple[str, ...], uid: str) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        now = SystemClock().now()
        organizations = [group for group in groups if group != "system:authenticated"]
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        if uid:
            subject.append(x509.NameAttribute(UID_ATTRIBUTE, uid))
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._sign(builder), pem


def _impersonation(user: dict[str, Any]) -> Headers:
    pairs = [("Impersonate-User", user["name"]), *(("Impersonate-Group", group) for group in user["groups"])]
    if user.get("uid"):
        pairs.append(("Impersonate-Uid", user["uid"]))
    for key, values in (user.get("extra") or {}).items():
        pairs += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return pairs


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _material(folder: Path, entry: dict[str, Any], key: str) -> bytes | None:
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"])
    return (folder / entry[key]).read_bytes() if key in entry else None
