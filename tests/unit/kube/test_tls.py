"""A TLS connection to an API server takes no more memory for a read than a record can hold."""

from __future__ import annotations

import contextlib
import ssl
import tracemalloc

import trustme

from haulout.kube.tls import LONGEST_RECORD, client_context
from tests.build.server import server_context

ALL_AT_ONCE = 256 * 1024


def connected() -> tuple[ssl.SSLObject, ssl.SSLObject, ssl.MemoryBIO]:
    """Return both ends of a connection, and the buffer in which the client receives."""
    authority, upward, downward = trustme.CA(), ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(ca=authority.cert_pem.bytes(), insecure=False, pair=None, where="e")
    client = context.wrap_bio(downward, upward, server_hostname="127.0.0.1")
    server = server_context(authority).wrap_bio(upward, downward, server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return client, server, downward


def test_a_read_of_much_takes_the_memory_of_one_record() -> None:
    client, server, received = connected()
    sent = b"x" * 3 * LONGEST_RECORD
    server.write(sent)
    found = []
    tracemalloc.start()
    try:
        while received.pending or client.pending():
            found.append(client.read(ALL_AT_ONCE))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b"".join(found) == sent
    assert most < ALL_AT_ONCE
