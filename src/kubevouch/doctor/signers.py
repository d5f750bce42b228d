"""Whether signers of one's own sign, and for how long they can."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import READY, STOPPED, CertificateSigner
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.doctor.findings import Code, Finding, argument
from kubevouch.machinery.errors import APIStatusError
from kubevouch.wellknown import CONDITION_TRUE

# Of a CA's life what a certificate gets is cut short from then on; and a month for whoever has to be asked.
_SOON = dt.timedelta(days=30)


def judge(objects: Iterable[CertificateSigner], *, now: dt.datetime) -> Iterator[Finding]:
    """What stands against each of them."""
    for obj in objects:
        name, signer = argument(obj.metadata.name), obj.spec.signer_name
        conditions = {each.type: each for each in obj.status.conditions}
        ready = conditions.get(READY)
        if STOPPED in conditions:
            yield Code.SIGNER_STOPPED.found(
                f"{signer}: {conditions[STOPPED].message}", f"kubevouch signer resume {name}"
            )
        elif ready is None or ready.status != CONDITION_TRUE:
            why = "nothing has looked at it" if ready is None else ready.message
            yield Code.SIGNER_NOT_READY.found(f"{signer}: {why}", f"kubevouch signer describe {name}")
        longest = dt.timedelta(seconds=obj.spec.lifetime.max_seconds or obj.spec.lifetime.default_seconds)
        for each in obj.status.authorities:
            # One that is on its way out may end, and so may one before the next that is there already.
            last = each is obj.status.authorities[-1]
            if last and each.not_after is not None and each.not_after.datetime() - now < max(longest, _SOON):
                yield Code.SIGNER_CA_ENDS.found(
                    f"{signer}: {each.subject} ends at {each.not_after}", f"kubevouch signer rotate {name}"
                )


async def examine(client: Client, *, now: dt.datetime) -> list[Finding]:
    """Raises APIStatusError, TransportError."""
    try:
        return list(judge((await list_all(client, CERTIFICATE_SIGNERS, options=PAGES)).items, now=now))
    except APIStatusError as err:
        if err.code != 404:
            raise
        return []  # the kind is not installed there
