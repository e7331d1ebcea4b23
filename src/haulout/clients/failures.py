"""Turns the errors of aiohttp into ours, which say whether the request may have been sent."""

from __future__ import annotations

import os
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from haulout.kube.errors import ConnectionFailed, KubeError, RequestTimeout

CONNECT_SECONDS = 10.0
# Every error that reading an answer may raise. aiohttp raises RuntimeError for a connection that was closed on this
# side.
BROKEN = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError)


def failure(act: str, error: Exception) -> KubeError:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ConnectionFailed(f"{act}: no connection within {CONNECT_SECONDS:g} s")
        case aiohttp.ServerTimeoutError():
            return RequestTimeout(f"{act}: the server stopped sending")
        case aiohttp.ClientConnectorCertificateError():
            return ConnectionFailed(
                f"{act}: the server's certificate is not trusted: {_cause(error.certificate_error)}"
            )
        case aiohttp.ClientProxyConnectionError():
            return ConnectionFailed(f"{act}: no connection to the proxy: {_cause(error.os_error)}")
        case aiohttp.ClientConnectorError():
            return ConnectionFailed(f"{act}: no connection: {_cause(error.os_error)}")
        case UnicodeError():
            return ConnectionFailed(f"{act}: no connection: the address has no host name")
        case aiohttp.ClientHttpProxyError():
            return ConnectionFailed(f"{act}: the proxy answered with HTTP {error.status}")
        case aiohttp.ClientResponseError():
            return ConnectionFailed(f"{act}: the answer is not HTTP", sent=True)
        case LineTooLong():
            return ConnectionFailed(f"{act}: a line of the answer is too long", sent=True)
        case aiohttp.ServerDisconnectedError():
            return ConnectionFailed(f"{act}: the server closed the connection without an answer", sent=True)
        case aiohttp.ClientPayloadError():
            return ConnectionFailed(f"{act}: the connection broke in the middle of the answer", sent=True)
        case _:
            return ConnectionFailed(f"{act}: the connection broke: {_cause(error)}", sent=True)


def _cause(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
