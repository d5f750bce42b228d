"""Service account tokens: signed, and accepted again.

Source: pkg/serviceaccount (claims.go, jwt.go, openidmetadata.go; Kubernetes 1.36), RFC 7519, OpenID Connect
Discovery 1.0.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from kubevouch import wellknown
from kubevouch.authentication.interface import Authentication, AuthenticationError, UserInfo
from kubevouch.machinery.meta import Object
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock
from kubevouch.util.expiring_cache import ExpiringCache

METHOD = "service-account-token"
KUBERNETES_CLAIM = "kubernetes.io"
# A token is some 1 kB; nothing longer is looked at.
MAX_TOKEN_BYTES = 16 * 1024
# Good signatures that are remembered: to verify one takes longer than all the rest of most requests.
MAX_REMEMBERED = 10_000
MAX_REMEMBERED_BYTES = 2048
REMEMBERED_SECONDS = 600.0
# Clocks of issuer and server may differ (go-jose DefaultLeeway).
LEEWAY = dt.timedelta(minutes=1)

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class UnusableKeyError(ValueError):
    """A key that service account tokens cannot be signed with."""


class BoundObject(msgspec.Struct, frozen=True):
    """The object with which a token ends."""

    kind: str
    name: str
    uid: str


class _Signed(msgspec.Struct):
    name: str
    uid: str


class _Private(msgspec.Struct):
    """The ``kubernetes.io`` claim."""

    namespace: str = ""
    node: _Signed | None = None
    secret: _Signed | None = None
    serviceaccount: _Signed | None = None


class _Claims(msgspec.Struct):
    iss: str = ""
    sub: str = ""
    aud: str | list[str] = []
    exp: int = 0
    iat: int = 0
    nbf: int = 0
    jti: str = ""
    private: _Private | None = msgspec.field(default=None, name=KUBERNETES_CLAIM)


class VerifyingKey:
    """A public key and what it is called.

    Raises:
        UnusableKeyError: neither RSA nor a NIST curve.
    """

    def __init__(self, key: object) -> None:
        self.algorithm = _algorithm_of(key)
        info = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
        self.key_id = base64.urlsafe_b64encode(hashlib.sha256(info).digest()).rstrip(b"=").decode()
        self._key = _made_of(self.algorithm).import_key(key)  # type: ignore[arg-type]

    def verified(self, token: str) -> bytes:
        """The claims of a token that this key signed, with no other algorithm than its own.

        Raises:
            AuthenticationError
        """
        try:
            return bytes(jws.deserialize_compact(token, self._key, algorithms=[self.algorithm]).payload)
        except (JoseError, ValueError, TypeError) as err:
            raise AuthenticationError(f"invalid signature: {err}") from err

    def entry(self) -> dict[str, Any]:
        """Its place in a JSON Web Key Set (RFC 7517)."""
        return {"use": "sig", **self._key.as_dict(private=False), "kid": self.key_id, "alg": self.algorithm}


class SigningKeys(VerifyingKey):
    """A private key and its public half.

    Raises:
        UnusableKeyError: neither RSA nor a NIST curve.
    """

    def __init__(self, key: PrivateKey) -> None:
        super().__init__(key.public_key())
        self._private = _made_of(self.algorithm).import_key(key)  # type: ignore[arg-type]

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The claims as a compact JWS."""
        header = {"alg": self.algorithm, "kid": self.key_id}
        return jws.serialize_compact(header, msgspec.json.encode(claims), self._private, algorithms=[self.algorithm])


def _made_of(algorithm: str) -> type[RSAKey] | type[ECKey]:
    return RSAKey if algorithm.startswith("RS") else ECKey


def _algorithm_of(key: object) -> str:
    if isinstance(key, rsa.RSAPublicKey):
        return "RS256"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    raise UnusableKeyError(f"service account tokens are signed with RSA or ECDSA, got {type(key).__name__}")


class Issuer(msgspec.Struct, frozen=True):
    """Who signs, under which name, and for whom if nobody is named.

    Args:
        url: the ``iss`` claim; kubeadm's default is ``https://kubernetes.default.svc.cluster.local``.
        accepted_urls, accepted_keys: former ones, whose tokens are accepted still.
        api_audiences: what the API server calls itself; empty means its issuers (--api-audiences).
        keys_url: where relying parties find the keys, if not at the API server.
        max_life: the longest life of a token; zero is no limit.
    """

    url: str
    keys: SigningKeys
    accepted_urls: tuple[str, ...] = ()
    accepted_keys: tuple[VerifyingKey, ...] = ()
    api_audiences: tuple[str, ...] = ()
    keys_url: str = ""
    max_life: dt.timedelta = dt.timedelta()

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url, *self.accepted_urls)

    @property
    def audiences(self) -> tuple[str, ...]:
        """The API server's own audiences."""
        return self.api_audiences or self.urls

    def verified(self, token: str) -> bytes:
        """The claims of a token that one of the keys signed. Raises :class:`AuthenticationError`."""
        for key in self.accepted_keys:
            try:
                return key.verified(token)
            except AuthenticationError:
                continue
        return self.keys.verified(token)

    def key_set(self) -> dict[str, Any]:
        """The public keys as a JSON Web Key Set (RFC 7517)."""
        return {"keys": [key.entry() for key in (self.keys, *self.accepted_keys)]}

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        *,
        now: dt.datetime,
        until: dt.datetime,
        bound: BoundObject | None,
    ) -> str:
        """A token for a stored ServiceAccount."""
        meta = account.metadata
        private: dict[str, Any] = {"namespace": meta.namespace}
        if bound is not None:
            private[bound.kind.lower()] = {"name": bound.name, "uid": bound.uid}
        private["serviceaccount"] = {"name": meta.name, "uid": meta.uid}
        issued = int(now.timestamp())
        return self.keys.sign(
            {
                "aud": list(audiences),
                "exp": int(until.timestamp()),
                "iat": issued,
                "iss": self.url,
                "jti": str(uuid.uuid4()),
                KUBERNETES_CLAIM: private,
                "nbf": issued,
                "sub": username(meta.namespace, meta.name),
            }
        )

    def discovery(self, keys_url: str) -> dict[str, Any]:
        """The document at ``/.well-known/openid-configuration``."""
        return {
            "issuer": self.url,
            "jwks_uri": self.keys_url or keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted(
                {key.algorithm for key in (self.keys, *self.accepted_keys)}
            ),
        }


def username(namespace: str, name: str) -> str:
    return f"{wellknown.SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}"


# namespace, name → the stored object, or None
Getter = Callable[[str, str], Object | None]


class ServiceAccountAuthenticator:
    """Accepts what :class:`Issuer` signed, while the account and the object it is bound to are there.

    Args:
        accounts, secrets, nodes: read the stored objects; a node's namespace is empty.
        revoked: why what a node was given at a time counts no more, or an empty text.
    """

    def __init__(
        self,
        issuer: Issuer,
        accounts: Getter,
        secrets: Getter,
        nodes: Getter,
        clock: Clock,
        revoked: Callable[[str, dt.datetime], str] | None = None,
    ) -> None:
        self._revoked = revoked
        self._issuer = issuer
        self._accounts = accounts
        self._bound: dict[str, Getter] = {"secret": secrets, "node": nodes}
        self._clock = clock
        # By digest. A signature that was good stays good; everything else is looked at each time.
        self._verified: ExpiringCache[bytes, bytes] = ExpiringCache(MAX_REMEMBERED, clock)

    def _verify(self, token: str) -> bytes:
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        payload = self._verified.get(digest)
        if payload is None:
            payload = self._issuer.verified(token)
            if len(payload) <= MAX_REMEMBERED_BYTES:
                self._verified.put(digest, payload, REMEMBERED_SECONDS)
        return payload

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        """The account's user, or None for a token of another issuer."""
        if len(bearer_token) > MAX_TOKEN_BYTES or _unverified_issuer(bearer_token) not in self._issuer.urls:
            return None
        try:
            claims = msgspec.json.decode(self._verify(bearer_token), type=_Claims)
        except (msgspec.MsgspecError, ValueError, RecursionError) as err:
            raise AuthenticationError(f"claims that cannot be read: {err}") from err
        self._check_time(claims)
        meant = _audiences_of(claims)
        accepted = tuple(one for one in (audiences or self._issuer.audiences) if one in meant)
        if not accepted:
            raise AuthenticationError("token audiences are not among those wanted")
        return Authentication(self._user(claims), METHOD, audiences=accepted if audiences else ())

    def _check_time(self, claims: _Claims) -> None:
        now = self._clock.now().timestamp()
        leeway = LEEWAY.total_seconds()
        if now - leeway > claims.exp:
            raise AuthenticationError("service account token has expired")
        if now + leeway < claims.nbf or now + leeway < claims.iat:
            raise AuthenticationError("service account token is not valid yet")

    def _user(self, claims: _Claims) -> UserInfo:
        private = claims.private
        if private is None or private.serviceaccount is None or not private.namespace:
            raise AuthenticationError("token lacks the claims of a service account")
        account, namespace = private.serviceaccount, private.namespace
        _require(self._accounts(namespace, account.name), account, "service account")
        for kind, getter in self._bound.items():
            signed: _Signed | None = getattr(private, kind)
            if signed is not None and not (kind == "node" and private.secret is not None):
                _require(getter("" if kind == "node" else namespace, signed.name), signed, kind)
        extra = {wellknown.CREDENTIAL_ID_EXTRA: (f"JTI={claims.jti}",)} if claims.jti else {}
        if private.node is not None:
            self._refuse_revoked(private.node.name, claims.iat)
            extra |= {wellknown.NODE_NAME_EXTRA: (private.node.name,), wellknown.NODE_UID_EXTRA: (private.node.uid,)}
        groups = (wellknown.SERVICE_ACCOUNTS_GROUP, f"{wellknown.SERVICE_ACCOUNTS_GROUP_PREFIX}{namespace}")
        return UserInfo(username(namespace, account.name), account.uid, groups, extra)

    def _refuse_revoked(self, node: str, issued: int) -> None:
        """A node has had tokens made for what runs on it: they would outlive its certificate."""
        if self._revoked is None:
            return
        try:
            why = self._revoked(node, dt.datetime.fromtimestamp(issued, dt.UTC))
        except (OverflowError, ValueError, OSError) as err:
            raise AuthenticationError(f"token issued at {issued}, which is no moment") from err
        if why:
            raise AuthenticationError(f"token is bound to a node that is revoked: {why}")


def _require(stored: Object | None, signed: _Signed, what: str) -> None:
    """Raises :class:`AuthenticationError` unless the very object that was signed is still there."""
    if stored is None or stored.metadata.deletion_timestamp is not None:
        raise AuthenticationError(f"{what} {signed.name} is gone")
    if stored.metadata.uid != signed.uid:
        raise AuthenticationError(f"{what} {signed.name} is another one than the token was made for")


def _audiences_of(claims: _Claims) -> Sequence[str]:
    return [claims.aud] if isinstance(claims.aud, str) else claims.aud


def _unverified_issuer(token: str) -> str | None:
    """Whose token it claims to be; only chooses who verifies it."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    payload = parts[1]
    try:
        decoded = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(decoded, type=_Claims).iss
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None
