"""Delivers a mail over SMTP: encrypted where the server offers it, with a password only over an encrypted or local connection."""

from __future__ import annotations

import base64
import contextlib
import ssl
from typing import TYPE_CHECKING

from haulout.base.number import digits
from haulout.clients.peers import trust, without
from haulout.plugins.messages import Mail
from haulout.runtime.sender import SendFailed

if TYPE_CHECKING:
    from aiosmtplib import SMTP

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_ACCEPTED = 235


async def deliver_mail(mail: Mail, tls: ssl.SSLContext | None, within: float) -> None:
    """Deliver a mail. `tls`: the trusted authorities; None: those of the system. Raises SendFailed."""
    try:
        import aiosmtplib
    except ImportError:
        raise SendFailed("mail needs the extra `mail` (pip install 'haulout[mail]')") from None
    host, port = _split(mail.address)
    # Like Go's net/smtp, we do not tell the server our host name.
    # Without a context, the library would read the authorities of the system each time, which takes tens of milliseconds.
    context = tls or await trust()
    smtp = aiosmtplib.SMTP(hostname=host, port=port, local_hostname="localhost", tls_context=context, timeout=within)
    try:
        await smtp.connect()
        await _greet(smtp)
        if mail.login is not None:
            await _log_in(smtp, host, mail)
        await _hand_over(smtp, mail)
    except aiosmtplib.SMTPResponseException as error:
        raise SendFailed(f"{mail.address}: {_reply(error.code, error.message, mail)}") from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise SendFailed(f"{mail.address}: {str(error) or type(error).__name__}") from error
    finally:
        # An error after the server has accepted the message does not matter.
        with contextlib.suppress(aiosmtplib.SMTPException, OSError):
            await smtp.quit(timeout=1)
        smtp.close()


async def _greet(smtp: SMTP) -> None:
    """Greet the server if needed. After encryption has begun it is, because earlier answers may have been forged."""
    from aiosmtplib import SMTPHeloError

    if smtp.is_ehlo_or_helo_needed:
        try:
            await smtp.ehlo()
        except SMTPHeloError:
            await smtp.helo()


async def _log_in(smtp: SMTP, host: str, mail: Mail) -> None:
    is_encrypted = smtp.get_transport_info("sslcontext") is not None
    if not is_encrypted and host not in LOCAL:
        raise SendFailed(f"{host}: unencrypted connection: the password is not sent")
    if not smtp.supports_extension("auth"):
        raise SendFailed(f"{host}: smtp: server doesn't support AUTH")
    answer = await smtp.execute_command(b"AUTH", b"PLAIN", _proof(mail).encode())
    if answer.code != _ACCEPTED:
        raise SendFailed(f"{host}: {_reply(answer.code, answer.message, mail)}")


def _proof(mail: Mail) -> str:
    return base64.b64encode("\0".join(mail.login or ()).encode()).decode()


def _reply(code: int, text: str, mail: Mail) -> str:
    """Return the server's refusal without the password, which some servers repeat in it."""
    return f"{code} {without(text, (_proof(mail), *(mail.login or ())[2:]))}"


async def _hand_over(smtp: SMTP, mail: Mail) -> None:
    """Send the message. If the server refuses one recipient, none gets it."""
    wide = smtp.supports_extension("smtputf8")
    options = ["BODY=8BITMIME"] if smtp.supports_extension("8bitmime") else []
    options += ["SMTPUTF8"] if wide else []
    encoding = "utf-8" if wide else "ascii"
    await smtp.mail(mail.sender, options=options, encoding=encoding)
    for recipient in mail.recipients:
        await smtp.rcpt(recipient, encoding=encoding)
    await smtp.data(written(mail))


def written(mail: Mail) -> bytes:
    """Return the message as it is sent, except that dots at the beginning of lines are not doubled yet."""
    headers = {"From": mail.sender, "To": ",".join(mail.recipients), "Subject": mail.subject}
    if mail.id:
        headers["Message-ID"] = f"<{mail.id}@haulout.dev>"
    head = "".join(f"{name}: {_line(text)}\r\n" for name, text in headers.items())
    return f"{head}\r\n{mail.text}".encode(errors="replace")


def _line(text: str) -> str:
    """Return a header's text on one line. A line break in it would begin another header."""
    return " ".join(text.splitlines())


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    number = digits(port, 5)
    if not colon or number is None or number > 65535:
        raise SendFailed(f"address {address}: missing port in address (HOST:PORT would be right)")
    return host.strip("[]"), number
