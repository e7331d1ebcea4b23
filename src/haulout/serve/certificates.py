"""Makes the certificates of our own servers: an authority, the certificates that it signs, and when each is renewed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from haulout.serve.bundle import Bundle, Unusable
from haulout.serve.tls import Pair

AUTHORITY_FOR = timedelta(days=3650)
SERVING_FOR = timedelta(days=90)
# Renewed long before the end, so that a cluster that was off for weeks starts with a valid certificate.
RENEW_AUTHORITY_BEFORE = timedelta(days=365)
RENEW_SERVING_BEFORE = timedelta(days=30)
# Clocks differ: the client's may be behind the clock of the process that made the certificate.
BACKDATED_FOR = timedelta(hours=1)
# A certificate that begins later than this was made by a process whose clock was wrong. API servers refuse it.
BEGINS_WITHIN = timedelta(minutes=5)
# API servers learn of a new authority by a watch. Until all of them have, no replica serves a certificate that it
# signed.
AUTHORITY_KNOWN_AFTER = timedelta(minutes=5)
MOST_NAMES = 100

# We make keys of elliptic curves. The originals made RSA keys, and one that is in a Secret stays in use.
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make_bundle(names: Iterable[str], now: datetime) -> Bundle:
    authority = _make_authority(now)
    return Bundle(authority.certificate, authority.key, _sign(authority, names, now))


def make_self_signed(names: Iterable[str], now: datetime) -> Pair:
    """Make a certificate for clients that do not verify the server."""
    return make_bundle(names, now).serving


def check(bundle: Bundle) -> None:
    """Raise Unusable unless all certificates and keys can be read and fit together."""
    try:
        authorities = x509.load_pem_x509_certificates(bundle.authorities)
        serving = x509.load_pem_x509_certificate(bundle.serving.certificate)
        fits = _fits(authorities[0], bundle.authority_key) and _fits(serving, bundle.serving.key)
    except (ValueError, TypeError, IndexError) as error:
        raise Unusable(str(error)) from error
    if not fits:
        raise Unusable("a key does not belong to its certificate")
    if not any(signed_by(serving, authority) for authority in authorities):
        raise Unusable("the certificate is not signed by the authority beside it")


def with_fresh_authority(bundle: Bundle, now: datetime) -> Bundle:
    """Return the bundle with a new authority if it is time for one, and without old ones that are not needed any more.

    It is time if the newest one ends soon, or is not valid yet.

    The serving certificate stays until all clients know the new authority.
    """
    newest, *older = x509.load_pem_x509_certificates(bundle.authorities)
    if newest.not_valid_after_utc - now < RENEW_AUTHORITY_BEFORE or not has_begun(newest, now):
        made = _make_authority(now)
        return msgspec.structs.replace(
            bundle, authorities=made.certificate + bundle.authorities, authority_key=made.key
        )
    # Every certificate that an older authority has signed has expired by then.
    if older and now > newest.not_valid_before_utc + BACKDATED_FOR + AUTHORITY_KNOWN_AFTER + SERVING_FOR:
        return msgspec.structs.replace(bundle, authorities=newest.public_bytes(serialization.Encoding.PEM))
    return bundle


def with_fresh_serving(bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle:
    """Return the bundle with a new serving certificate if it ends soon, is not valid yet, lacks a name, or a new
    authority is known.

    A certificate that ends soon is kept while the newest authority is not known yet: clients would not trust a new one.
    """
    authorities = x509.load_pem_x509_certificates(bundle.authorities)
    newest = authorities[0]
    serving = x509.load_pem_x509_certificate(bundle.serving.certificate)
    wanted = set(names)
    left_for = serving.not_valid_after_utc - now
    is_known = now >= newest.not_valid_before_utc + BACKDATED_FOR + AUTHORITY_KNOWN_AFTER
    is_due = left_for < RENEW_SERVING_BEFORE or not signed_by(serving, newest)
    is_useless = (
        left_for <= timedelta() or not wanted <= names_of(serving) or not chain_has_begun(serving, authorities, now)
    )
    if is_useless or (is_known and is_due):
        authority = Pair(newest.public_bytes(serialization.Encoding.PEM), bundle.authority_key)
        # While replicas of two versions run, each wants its own names. A certificate with both sets is renewed by
        # neither.
        both = wanted | names_of(serving)
        signed = _sign(authority, both if len(both) <= MOST_NAMES else wanted, now)
        return msgspec.structs.replace(bundle, serving=signed)
    return bundle


def next_renewal(bundle: Bundle, now: datetime) -> datetime:
    """Return the next instant at which an authority or a certificate may have to be renewed or dropped."""
    newest = x509.load_pem_x509_certificates(bundle.authorities)[0]
    serving = x509.load_pem_x509_certificate(bundle.serving.certificate)
    known_at = newest.not_valid_before_utc + BACKDATED_FOR + AUTHORITY_KNOWN_AFTER
    dates = [
        newest.not_valid_after_utc - RENEW_AUTHORITY_BEFORE,
        serving.not_valid_after_utc - RENEW_SERVING_BEFORE,
        known_at,
        known_at + SERVING_FOR,
    ]
    return min((date for date in dates if date > now), default=now + timedelta(hours=1))


def has_begun(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now + BEGINS_WITHIN


def chain_has_begun(serving: x509.Certificate, authorities: Iterable[x509.Certificate], now: datetime) -> bool:
    """Whether a certificate and an authority that signed it are valid already."""
    signers = (authority for authority in authorities if signed_by(serving, authority))
    return has_begun(serving, now) and any(has_begun(signer, now) for signer in signers)


def names_of(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return {*found.get_values_for_type(x509.DNSName), *addresses}


def signers_of(certificate: bytes, authorities: bytes) -> bytes:
    """Return the authorities that have signed a certificate; empty if none has, or if these are no certificates."""
    try:
        served, known = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificates(authorities)
    except ValueError:
        return b""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in known if signed_by(served, each))


def _make_authority(now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The time in the name keeps two trusted authorities apart.
    name = _name(f"haulout webhook authority {now:%Y-%m-%dT%H:%M:%SZ}")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _begun(name, name, key.public_key(), now, AUTHORITY_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _sign(authority: Pair, names: Iterable[str], now: datetime) -> Pair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = _private(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [alternative(name) for name in sorted(set(names))]
    certificate = (
        _begun(_name("haulout webhook"), issuer.subject, key.public_key(), now, SERVING_FOR)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, good_for: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED_FOR)
        .not_valid_after(now + good_for)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _private(pem: bytes) -> PrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, PrivateKey):
        raise Unusable("the key is of a kind that is not made for webhooks")
    return key


def _fits(certificate: x509.Certificate, key: bytes) -> bool:
    return certificate.public_key() == _private(key).public_key()


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
