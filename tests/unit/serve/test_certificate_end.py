"""When a certificate ends, as the library for certificates reads it."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.serve.certificate_end import certificate_end
from haulout.serve.certificates import make_bundle

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEGINS = datetime(1951, 1, 1, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())


def ending(at: datetime, issuer: str = "test") -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key()).serial_number(7)
    signed = made.not_valid_before(BEGINS).not_valid_after(at).sign(KEY, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


@settings(max_examples=100, deadline=None)
@given(
    st.datetimes(datetime(1951, 1, 2), datetime(9999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
    st.text("abc", min_size=1, max_size=60),
)
def test_it_is_what_the_library_reads(at: datetime, issuer: str) -> None:
    pem = ending(at.replace(microsecond=0), issuer)
    assert certificate_end(pem) == x509.load_pem_x509_certificate(pem).not_valid_after_utc


def test_text_before_it_and_others_after_it_do_not_count() -> None:
    made = make_bundle(("a.test",), NOW)
    pem = b"subject: a\n" + made.serving.certificate + made.authorities
    assert certificate_end(pem) == NOW + timedelta(days=90)


@settings(max_examples=100)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_what_is_no_certificate_is_a_value_error(noise: bytes, at: int) -> None:
    good = ssl.PEM_cert_to_DER_cert(ending(NOW).decode())
    for content in (noise, good[:at], good[:at] + noise):
        with pytest.raises(ValueError, match="certificate"):
            certificate_end(ssl.DER_cert_to_PEM_cert(content).encode())


@pytest.mark.parametrize("text", [b"", b"-----BEGIN CERTIFICATE-----\n", b"\xff\xfe"])
def test_a_file_without_a_certificate(text: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        certificate_end(text)
