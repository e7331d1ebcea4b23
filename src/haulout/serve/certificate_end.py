"""Reads when a certificate ends, without the library for certificates, which takes 9 MiB of memory."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
# Tags of ASN.1: a SEQUENCE, the version of a certificate, and the two forms of a time.
SEQUENCE, VERSION = 0x30, 0xA0
FORMS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
# A length of one byte. In a longer form the byte says how many bytes the length has.
SHORT = 0x80
# A year of two digits before this one is of this century (RFC 5280, 4.1.2.5.1).
PIVOT = 50

Element = tuple[int, bytes]


def certificate_end(pem: bytes) -> datetime:
    """Return when the first certificate in a PEM file ends. Raises ValueError if none can be read."""
    text = pem.decode("ascii", "replace")
    begin = text.find(BEGIN)
    end = text.find(END, begin)
    if begin < 0 or end < 0:
        raise ValueError("there is no certificate in it")
    certificate = _content(_elements(ssl.PEM_cert_to_DER_cert(text[begin : end + len(END)])))
    # The signed part is a version, which is absent in the oldest form, serial number, algorithm, issuer and validity
    # (RFC 5280, 4.1).
    fields = _elements(_content(_elements(certificate)))
    parts = [field for _, field in zip(range(5), fields, strict=False) if field[0] != VERSION]
    if len(parts) < 4:
        raise ValueError("its certificate is cut off")
    validity = list(_elements(_content(iter(parts[3:]))))
    if len(validity) != 2:
        raise ValueError("the validity of its certificate cannot be read")
    return _instant(*validity[1])


def _elements(content: bytes) -> Iterator[Element]:
    """Yield tag and content of each element. Raises ValueError where one is cut off."""
    at = 0
    while at < len(content):
        tag, length, at = content[at], *_length(content, at + 1)
        if at + length > len(content):
            raise ValueError("its certificate is cut off")
        yield tag, content[at : at + length]
        at += length


def _length(content: bytes, at: int) -> tuple[int, int]:
    """Return the length that is written at a place, and the place after it."""
    if at >= len(content):
        raise ValueError("its certificate is cut off")
    if content[at] < SHORT:
        return content[at], at + 1
    after = at + 1 + content[at] - SHORT
    return int.from_bytes(content[at + 1 : after], "big"), after


def _content(elements: Iterator[Element]) -> bytes:
    """Return the content of the first element, which has to be a SEQUENCE."""
    tag, content = next(elements, (0, b""))
    if tag != SEQUENCE:
        raise ValueError("its certificate is malformed")
    return content


def _instant(tag: int, written: bytes) -> datetime:
    if tag not in FORMS:
        raise ValueError("the end of its certificate is malformed")
    text = written.decode("ascii", "replace")
    try:
        at = datetime.strptime(text, FORMS[tag]).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError("the end of its certificate is malformed") from None
    # Python takes the years from 69 for those of the last century.
    century = 100 if FORMS[tag].startswith("%y") and int(text[:2]) >= PIVOT and at.year > 2000 else 0
    return at.replace(year=at.year - century)
