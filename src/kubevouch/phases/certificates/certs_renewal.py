"""``certs renew``: the same names and the same kind of key once more, from the authority on this machine.

Authorities are never renewed, nor is a certificate whose authority signs elsewhere (kubeadm 1.36). Unlike kubeadm, the
kind of key is that of the certificate that is there, kubeconfigs included.
"""

from __future__ import annotations

import datetime as dt
from enum import Enum

from kubevouch.phases.certificates import control_plane_files
from kubevouch.phases.certificates.certs import CertsError, chain_pem
from kubevouch.phases.certificates.control_plane_files import Credential, Layout
from kubevouch.pki import keys
from kubevouch.pki.authority import LEAF_VALIDITY, issue_leaf
from kubevouch.pki.control_plane import CA
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm


class Outcome(Enum):
    """What became of one certificate."""

    RENEWED = "renewed"
    MISSING = "missing"
    EXTERNAL = "external"


def renew(
    credential: Credential,
    layout: Layout,
    *,
    now: dt.datetime,
    algorithm: KeyAlgorithm | None = None,
    validity: dt.timedelta = LEAF_VALIDITY,
) -> Outcome:
    """Renew one, however much time it has left. A run that was cut short is simply run again.

    Args:
        algorithm: another kind of key than the certificate has.

    Raises:
        CertsError: a file cannot be used, or the authority has ended.
        OSError: a file cannot be written.
    """
    chain = control_plane_files.read_chain(credential, layout)
    if chain is None:
        return Outcome.MISSING
    if control_plane_files.is_external(layout, credential.signed_by):
        return Outcome.EXTERNAL
    leaf = chain[0]
    authority = control_plane_files.signing_authority(layout, credential.signed_by)
    try:
        # From the certificate, not from the key: the key may be a new one whose certificate was never written.
        key = keys.generate(algorithm or KeyAlgorithm.parse(leaf.public_key.name))
        issued = issue_leaf(authority, control_plane_files.spec_of(leaf, validity), key, now=now)
    except PKIError as err:
        raise CertsError(f"{credential.path(layout)} cannot be renewed: {err}") from err
    shown = chain_pem(layout.pki, issued, authority) if credential.signed_by == CA else issued.pem()
    control_plane_files.write_credential(credential, layout, shown, keys.to_pem(key))
    return Outcome.RENEWED
