"""The errors of a connection, which say whether the request may have been sent."""

from __future__ import annotations

import os
import ssl

from haulout.kube.errors import Compressed, ConnectionFailed, KubeError, RequestTimeout

CONNECT_SECONDS = 10.0


class WireError(Exception):
    """A request has no answer, or its answer broke off. The message is the end of a sentence about the request.

    `sent`: the server may have received the request.
    """

    sent = True


class NotConnected(WireError):
    """No connection could be opened, so nothing was sent."""

    sent = False


class Unanswered(WireError):
    """The connection ended before the first byte of the answer."""


class Silent(WireError):
    """The server has sent nothing for too long."""


class Encoded(WireError):
    """The answer has an encoding that was not asked for."""


def failure(act: str, error: WireError | UnicodeError) -> KubeError:
    """Return the error of a request. `act` names the request."""
    match error:
        case Silent():
            return RequestTimeout(f"{act}: {error}")
        case Encoded():
            return Compressed(f"{act}: {error}")
        case WireError():
            return ConnectionFailed(f"{act}: {error}", sent=error.sent)
        case _:
            return ConnectionFailed(f"{act}: no connection: the address has no host name")


def cause(error: BaseException) -> str:
    """Return why the system or TLS refused, without the address, which may come from a Secret."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
