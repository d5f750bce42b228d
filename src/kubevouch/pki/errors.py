"""What can be wrong with certificates, requests, keys, signatures and pins.

PKIError
├── ParseError                 bytes that do not parse; the text is Go's where Kubernetes shows it
│   ├── DERError               … already at the level of DER
│   └── StructureError         … in a structure of a TPM
├── SignatureError             a signature, or a JWS, that does not verify
├── PolicyError                a request that its signer's rules refuse; the text is that of the Failed condition
├── UsageError                 usage strings nobody knows
├── KeyMaterialError           a key that cannot be made, read or used
├── AuthorityError             a CA that cannot be loaded or cannot sign now
│   ├── AuthorityExpiredError  … because its certificate has ended
│   └── NotSingleError         … because more than one certificate is there
├── IssuedMismatchError        a fresh certificate is not what was allowed: stop signing
├── PinError                   a pin that does not parse, or a bundle that no pin covers
├── IncompatibleRequestError   a CSR found under a name is not the one looked for
│   └── NameSquattedError      … and somebody put it there
├── DeviceChainError           a device's certificate that leads to no root, or breaks a rule on the way
├── SSHError                   a key, certificate, signature or revocation list of SSH that proves nothing
├── RecoveryProofError         an answer to a recovery challenge that proves nothing
└── ClientCertificateError     a client certificate that proves nothing
    ├── CertificateExpiredError
    ├── CertificateNotYetValidError
    ├── UnknownAuthorityError
    ├── IncompatibleUsageError
    ├── ChainError             the path to the trust anchor breaks a rule of RFC 5280 section 6
    └── IdentityError          a valid certificate whose subject names no user
"""

from __future__ import annotations


class PKIError(Exception):
    """The root of this package's errors."""


class ParseError(PKIError):
    """Bytes from outside that are not what they must be."""


class DERError(ParseError):
    """A violation of DER, in the words of Go's ``encoding/asn1``."""


class StructureError(ParseError):
    """Octets that are not the TPM structure, or the event log, that they have to be."""


class SignatureError(PKIError):
    """A signature that does not verify, or cannot be verified."""


class PolicyError(PKIError):
    """A signer's rules refuse a request for ever; ``str()`` is the message of the Failed condition."""


class UsageError(PKIError):
    """A usage string outside the closed set."""


class KeyMaterialError(PKIError):
    """A private or public key that cannot be made, read or used."""


class AuthorityError(PKIError):
    """A certificate authority that cannot be loaded or cannot sign now."""


class AuthorityExpiredError(AuthorityError):
    """The authority's own certificate has ended."""


class NotSingleError(AuthorityError):
    """A pair that fits, in a file with something else beside its certificate."""


class IssuedMismatchError(PKIError):
    """A freshly signed certificate differs from what was allowed: the signer must stop and somebody must look.

    ``differences`` names each field with what was issued and what was allowed.
    """

    def __init__(self, differences: tuple[str, ...]) -> None:
        super().__init__("the issued certificate is not what was allowed: " + "; ".join(differences))
        self.differences = differences


class PinError(PKIError):
    """A public key pin that does not parse, or trust anchors that no pin covers."""


class IncompatibleRequestError(PKIError):
    """The CSR found under a name cannot be used as one's own."""


class NameSquattedError(IncompatibleRequestError):
    """The CSR found under one's own name is for another key: somebody was there first."""


class DeviceChainError(PKIError):
    """A device's certificate that leads to no root, or breaks a rule on the way; ``step`` names the rule."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class SSHError(PKIError):
    """A key, certificate, signature or revocation list of SSH that proves nothing; ``step`` names the rule."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class RecoveryProofError(PKIError):
    """An answer to a recovery challenge that proves nothing; the text says which step failed."""


class ClientCertificateError(PKIError):
    """A TLS client certificate from which no identity follows."""


class CertificateExpiredError(ClientCertificateError):
    """A certificate of the chain has ended."""


class CertificateNotYetValidError(ClientCertificateError):
    """A certificate of the chain has not begun."""


class UnknownAuthorityError(ClientCertificateError):
    """No trust anchor stands behind the certificate."""


class IncompatibleUsageError(ClientCertificateError):
    """The chain does not permit TLS client authentication."""


class ChainError(ClientCertificateError):
    """A rule of path validation is broken: length, critical extension, name constraint."""


class IdentityError(ClientCertificateError):
    """A valid certificate whose subject names no user."""
