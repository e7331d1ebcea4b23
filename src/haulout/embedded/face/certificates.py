"""The self-signed certificate with which the embedded API server serves HTTPS on loopback."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class ServingPair(msgspec.Struct, frozen=True):
    """The certificate and the key with which the embedded API server serves HTTPS.

    Both are PEM. The certificate is self-signed, so that a client that trusts it trusts the server.
    """

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ServingPair(…)"

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # The ssl module reads keys from files only.
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            key.touch(mode=0o600)
            certificate.write_bytes(self.certificate)
            key.write_bytes(self.key)
            context.load_cert_chain(certificate, key)
        return context


def make_pair(names: tuple[str, ...]) -> ServingPair:
    """Return a new certificate and key for these host names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "haulout embedded cluster")])
    alternatives = [
        x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() or ":" in name else x509.DNSName(name)
        for name in names
    ]
    # The computer's own clock: clients compare with theirs, whatever the time of the cluster.
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return ServingPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
