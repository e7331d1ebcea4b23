"""The form in which the Skyhook operator stores its webhooks' certificate: a Secret whose annotation says when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from haulout.base import bounds
from haulout.model.meta import wire_time
from haulout.serve.bundle import Bundle, Unusable
from haulout.serve.certificates import (
    BACKDATED_FOR,
    alternative,
    chain_has_begun,
    names_of,
    signed_by,
)
from haulout.serve.secret_form import Json, decode_secret, encode_secret
from haulout.serve.tls import Pair

EXPIRATION, SERVICE = "skyhook.nvidia.com/expiration", "skyhook.nvidia.com/service"
AUTHORITY_NAME, ORGANIZATION = "webhooks-ca", "NVIDIA"
GOOD_FOR = timedelta(days=365)
RENEW_BEFORE = timedelta(hours=168)
LOOK_EVERY = timedelta(hours=24)
KEY_BITS = 4096


class SkyhookForm:
    """The form of the Skyhook operator: an authority and a certificate for one year, made together.

    The key of the authority is thrown away. If the annotation names an earlier end than the certificate, it counts.
    """

    def __init__(self, service: str, key_bits: int = KEY_BITS) -> None:
        self._service = service
        self._key_bits = key_bits

    def make(self, names: Iterable[str], now: datetime) -> Bundle:
        return self._make(names, now, b"")

    def fresh_authority(self, bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle:
        """Return a new bundle if this one ends soon, is not valid yet or lacks a name. It trusts the last authority, too.

        So replicas that have not read the new bundle yet can go on serving the last certificate.
        """
        serving = x509.load_pem_x509_certificate(bundle.serving.certificate)
        authorities = x509.load_pem_x509_certificates(bundle.authorities)
        is_valid = bundle.served_until() - now >= RENEW_BEFORE and chain_has_begun(serving, authorities, now)
        if is_valid and set(names) <= names_of(serving):
            return bundle
        return self._make(names, now, authorities[0].public_bytes(serialization.Encoding.PEM))

    def fresh_serving(self, bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle:
        return bundle

    def next_renewal(self, bundle: Bundle, now: datetime) -> datetime:
        return min(bundle.served_until() - RENEW_BEFORE, now + LOOK_EVERY)

    def fields(self, bundle: Bundle) -> Json:
        return {
            "labels": {},
            "annotations": {EXPIRATION: wire_time(bundle.served_until()), SERVICE: self._service},
            "type": "Opaque",
            "data": encode_secret(
                {
                    "ca.crt": bundle.authorities,
                    "tls.crt": bundle.serving.certificate,
                    "tls.key": bundle.serving.key,
                }
            ),
        }

    def read(self, secret: Mapping[str, Any]) -> Bundle:
        plain = decode_secret(secret, ("ca.crt", "tls.crt", "tls.key"))
        bundle = Bundle(plain["ca.crt"], b"", Pair(plain["tls.crt"], plain["tls.key"]), _annotated_end(secret))
        _check(bundle)
        return bundle

    def _make(self, names: Iterable[str], now: datetime, trusted: bytes) -> Bundle:
        authority_key = rsa.generate_private_key(65537, self._key_bits)
        issuer = _name(AUTHORITY_NAME)
        authority = (
            _begun(issuer, issuer, authority_key, now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        key, wanted = rsa.generate_private_key(65537, self._key_bits), sorted(set(names))
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        certificate = (
            _begun(_name(wanted[0][:64]), issuer, key, now)
            .add_extension(x509.SubjectAlternativeName([alternative(name) for name in wanted]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(identifier, critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        serving = Pair(certificate.public_bytes(serialization.Encoding.PEM), pem)
        return Bundle(authority.public_bytes(serialization.Encoding.PEM) + trusted, b"", serving)


def _begun(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED_FOR)
        .not_valid_after(now + GOOD_FOR)
    )


def _name(text: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _annotated_end(secret: Mapping[str, Any]) -> datetime | None:
    meta = secret.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    text = annotations.get(EXPIRATION) if isinstance(annotations, dict) else None
    try:
        return bounds.instant(msgspec.convert(text, datetime)) if text else None
    except msgspec.ValidationError:
        # A malformed annotation counts as an end in the past, so that a new certificate is made.
        return datetime.fromtimestamp(0, UTC)


def _check(bundle: Bundle) -> None:
    """Raise Unusable unless all certificates and keys can be read and fit together."""
    try:
        authorities = x509.load_pem_x509_certificates(bundle.authorities)
        serving = x509.load_pem_x509_certificate(bundle.serving.certificate)
        key = serialization.load_pem_private_key(bundle.serving.key, None)
    except (ValueError, TypeError) as error:
        raise Unusable(str(error)) from error
    if key.public_key() != serving.public_key():
        raise Unusable("the key does not belong to its certificate")
    if not any(signed_by(serving, authority) for authority in authorities):
        raise Unusable("the certificate is not signed by the authority beside it")
