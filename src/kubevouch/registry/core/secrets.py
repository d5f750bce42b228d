"""Secret."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.field import FieldError
from kubevouch.pki.authority import load_key_pair
from kubevouch.pki.errors import PKIError
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class SecretStrategy(Strategy[Secret]):
    def warnings_on_create(self, _ctx: Context, obj: Secret) -> list[str]:
        return _warnings(obj)

    def warnings_on_update(self, _ctx: Context, new: Secret, _old: Secret) -> list[str]:
        return _warnings(new)

    def validate(self, _ctx: Context, obj: Secret) -> list[FieldError]:
        return core_v1.validate_secret(obj)

    def prepare_for_update(self, _ctx: Context, new: Secret, old: Secret) -> Secret:
        # Reads as "keep the old type", but the defaulter has already made an empty one Opaque (as in Kubernetes).
        return new if new.type else msgspec.structs.replace(new, type=old.type)

    def validate_update(self, _ctx: Context, new: Secret, old: Secret) -> list[FieldError]:
        return core_v1.validate_secret_update(new, old)


_TLS_KEYS = (wellknown.TLS_CERTIFICATE_KEY, wellknown.TLS_PRIVATE_KEY_KEY)


def _warnings(obj: Secret) -> list[str]:
    """What ``tls.X509KeyPair`` says of a TLS Secret (pkg/registry/core/secret/strategy.go, Kubernetes 1.36)."""
    if obj.type != wellknown.TLS_SECRET:
        return []
    certificate, key = (obj.data.get(name, b"") for name in _TLS_KEYS)
    try:
        load_key_pair(certificate, key, trusted_key=True)  # only compared: whether its primes are none costs seconds
    except PKIError as error:
        return [str(error)]
    return []


def _cells(obj: Secret, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, obj.type, len(obj.data), age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.SECRETS,
    defaulter=core_v1.default_secret,
    strategy=SecretStrategy(),
    printer=Printer(
        (
            NAME,
            Column("Type", description="What the values are for."),
            Column("Data", description="How many values there are."),
            AGE,
        ),
        _cells,
    ),
    selectable_fields={"type": lambda obj: obj.type},
)
