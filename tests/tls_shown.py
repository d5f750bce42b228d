"""Which certificate a context shows."""

from __future__ import annotations

import ssl

from kubevouch.phases.certificates.certs import certificate_pem


def shown(context: ssl.SSLContext, name: str | None = None) -> bytes:
    """The leaf, as PEM, that a handshake in memory shows to who asks for ``name``."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return certificate_pem(ends[0].getpeercert(binary_form=True) or b"")
