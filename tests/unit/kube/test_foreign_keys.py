"""Keys and certificates of kubeconfigs in Secrets: expensive ones are refused before they are opened."""

from __future__ import annotations

import base64
import json
import ssl
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from haulout.kube.allowed_addresses import Reach
from haulout.kube.config import Opened, from_secret
from haulout.kube.errors import ConfigInvalid, ConfigRefused

AUTHORITY = trustme.CA()
LEAF = AUTHORITY.issue_cert("jane@example.org")
CERTIFICATE, KEY = LEAF.cert_chain_pems[0].bytes(), LEAF.private_key_pem.bytes()
PASSWORD = BestAvailableEncryption(b"x")


def opened(certificate: bytes = CERTIFICATE, key: bytes = KEY, authorities: int = 1) -> Opened:
    user = {"client-certificate-data": coded(certificate), "client-key-data": coded(key)}
    trusted = coded(AUTHORITY.cert_pem.bytes() * authorities)
    body: dict[str, Any] = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "https://10.0.0.1", "certificate-authority-data": trusted}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    return from_secret(json.dumps(body).encode(), source="Secret x/y", reach=Reach(), env={})


def coded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def written(form: PrivateFormat, encryption: KeySerializationEncryption) -> bytes:
    key = load_pem_private_key(KEY, None)
    return key.private_bytes(Encoding.PEM, form, encryption)


def relabelled(pem: bytes, label: bytes) -> bytes:
    return pem.replace(b"ENCRYPTED PRIVATE KEY", label)


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if OpenSSL gets a key."""

    def opens(self: ssl.SSLContext, path: str, password: str = "") -> None:
        raise AssertionError("OpenSSL was given the key")

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", opens)


PKCS8 = written(PrivateFormat.PKCS8, PASSWORD)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "key",
    [
        pytest.param(PKCS8, id="PKCS#8"),
        pytest.param(written(PrivateFormat.TraditionalOpenSSL, PASSWORD), id="traditional"),
        pytest.param(relabelled(PKCS8, b"PRIVATE KEY"), id="PKCS#8 by another name"),
        pytest.param(relabelled(PKCS8, b"EC PRIVATE KEY"), id="PKCS#8 as a traditional key"),
        pytest.param(KEY + PKCS8, id="behind another"),
        pytest.param(b"", id="none"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n", id="no base64"),
    ],
)
def test_a_key_that_has_to_be_decrypted_is_refused(key: bytes) -> None:
    with pytest.raises(ConfigInvalid, match=r"^Secret x/y"):
        opened(key=key or b" ")


@pytest.mark.usefixtures("untouched")
def test_a_key_that_takes_long_to_sign_with_is_refused() -> None:
    body = b"\x30\x82\x24\x00\x02\x01\x00" + b"\x00" * 9216
    pem = b"-----BEGIN RSA PRIVATE KEY-----\n" + base64.encodebytes(body) + b"-----END RSA PRIVATE KEY-----\n"
    with pytest.raises(ConfigInvalid, match="the key is too large"):
        opened(key=pem)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "certificate", [CERTIFICATE * 17, CERTIFICATE.replace(b"-----END", b"AAAA\n" * 6000 + b"-----END")]
)
def test_a_certificate_out_of_proportion_is_refused(certificate: bytes) -> None:
    with pytest.raises(ConfigInvalid, match=r"^Secret x/y"):
        opened(certificate)


def test_a_key_hidden_before_the_certificate_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bytes] = []

    def opens(self: ssl.SSLContext, path: str, password: str = "") -> None:
        with open(path, "rb") as file:  # noqa: PTH123 - of the memory of this process
            given.append(file.read())

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", opens)
    opened(relabelled(PKCS8, b"PRIVATE KEY") + CERTIFICATE)
    assert given[0].count(b"PRIVATE KEY-----") == 2
    assert b"".join(KEY.split()[3:5]) in b"".join(given[0].split())


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_keys_as_they_are_usually_written_are_taken(form: PrivateFormat) -> None:
    key = b"Bag Attributes: x-y\n" + written(form, NoEncryption())
    assert opened(key=key).tls is not None


def test_large_keys_of_good_size_are_taken() -> None:
    made = rsa.generate_private_key(65537, 4096)
    own = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    # It does not belong to the certificate, which OpenSSL finds out: it was given the key.
    with pytest.raises(ConfigInvalid, match="that belongs to it"):
        opened(key=own)
    curve = ec.generate_private_key(ec.SECP521R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ConfigInvalid, match="that belongs to it"):
        opened(key=curve)


def test_servers_do_not_choose_the_size_of_the_key_exchange() -> None:
    context = opened().tls
    assert context is not None
    assert not [cipher["name"] for cipher in context.get_ciphers() if cipher["name"].startswith("DHE")]


def test_a_bundle_of_authorities_is_bounded() -> None:
    assert opened(authorities=32).tls is not None
    with pytest.raises(ConfigRefused, match="more than 32 certificates"):
        opened(authorities=33)
