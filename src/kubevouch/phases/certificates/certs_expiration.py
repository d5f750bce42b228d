"""``certs check-expiration``: what a control plane's certificates say of their ends (kubeadm 1.36)."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.phases.certificates import control_plane_files
from kubevouch.phases.certificates.control_plane_files import Layout, display_name


class Expiration(msgspec.Struct, frozen=True):
    """When one certificate ends.

    Args:
        not_after: None for one that is missing.
        externally_managed: nothing here can sign it again.
        signed_by: the name of its authority; empty for an authority.
    """

    name: str
    not_after: dt.datetime | None
    externally_managed: bool
    signed_by: str = ""

    def residual(self, now: dt.datetime) -> dt.timedelta:
        """The time that is left, never negative; nothing for one that is missing."""
        return dt.timedelta() if self.not_after is None else max(self.not_after - now, dt.timedelta())


class Expirations(msgspec.Struct, frozen=True):
    certificates: tuple[Expiration, ...]
    authorities: tuple[Expiration, ...]


def check(layout: Layout) -> Expirations:
    """All that belong on this machine, whether they are there or not, in the order of their names.

    Raises:
        CertsError: a file is there and cannot be read as a certificate.
    """
    certificates = []
    names = control_plane_files.listed(layout)
    for each in names:
        chain = control_plane_files.read_chain(each, layout)
        certificates.append(
            Expiration(
                each.name,
                None if chain is None else chain[0].not_after,
                control_plane_files.is_external(layout, each.signed_by),
                display_name(each.signed_by),
            )
        )
    authorities = []
    for base_name in control_plane_files.AUTHORITIES:
        if not any(each.signed_by == base_name for each in names):
            continue
        found = control_plane_files.read_authority(layout, base_name)
        external = control_plane_files.is_external(layout, base_name)
        authorities.append(Expiration(display_name(base_name), None if found is None else found.not_after, external))
    return Expirations(tuple(certificates), tuple(authorities))
