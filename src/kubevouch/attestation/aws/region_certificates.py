"""With which certificates AWS signs the documents of a region: data that outlives no release of AWS.

They come with the settings, or from a folder ``REGION/FORM.pem`` that ``kubevouch attestation roots`` keeps; a file is
read each time, so that a new region needs no restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kubevouch.attestation.aws.evidence import Form
from kubevouch.attestation.interface import SettingsError, UnavailableError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate

_MAX_FILE = 64 << 10


class RegionCertificates:
    """What :data:`~kubevouch.attestation.aws.identity_document.Certificates` is.

    Args:
        given: PEM by region and form; counts before the folder's.
        folder: empty for none.

    Raises:
        SettingsError: what is given has no certificates.
    """

    def __init__(self, given: Mapping[str, Mapping[Form, str]], folder: str) -> None:
        self._given = {
            (region, form): _parse(text.encode(), f"certificates of {region}/{form}")
            for region, forms in given.items()
            for form, text in forms.items()
        }
        self._folder = Path(folder) if folder else None

    def __call__(self, region: str, form: Form) -> Sequence[Certificate]:
        """``region`` is well formed. Raises :class:`UnavailableError` for a file that cannot be used."""
        given = self._given.get((region, form))
        if given is not None or self._folder is None:
            return given or ()
        path = self._folder / region / f"{form}.pem"
        try:
            with path.open("rb") as file:
                return _parse(file.read(_MAX_FILE), str(path))
        except FileNotFoundError:
            return ()
        except (OSError, SettingsError) as err:
            raise UnavailableError(f"{path}: no certificates can be read: {err}") from err


def _parse(text: bytes, what: str) -> Sequence[Certificate]:
    try:
        return x509_certificate.parse_bundle(text)
    except ParseError as err:
        raise SettingsError(f"settings of aws: {what}: {err}") from err
