"""`SecretForm`, how the webhooks' certificate is stored in its Secret and renewed, and `OwnForm`, Haulout's own form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from haulout.serve.bundle import Bundle, Unusable
from haulout.serve.certificates import (
    check,
    make_bundle,
    next_renewal,
    with_fresh_authority,
    with_fresh_serving,
)
from haulout.serve.tls import Pair

Json = dict[str, Any]


class SecretForm(Protocol):
    """A way to make, store and renew certificates, named by a `FormName`. The methods are pure, except that keys are random."""

    def make(self, names: Iterable[str], now: datetime) -> Bundle: ...

    def fresh_authority(self, bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle: ...

    def fresh_serving(self, bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle: ...

    def next_renewal(self, bundle: Bundle, now: datetime) -> datetime: ...

    def fields(self, bundle: Bundle) -> Json:
        """Return the labels, the annotations, the type and the data of the Secret."""
        ...

    def read(self, secret: Mapping[str, Any]) -> Bundle:
        """Return the certificates in a Secret. Raises Unusable."""
        ...


class OwnForm:
    """Haulout's own form: an authority for ten years, whose key is in the Secret, too, and certificates for three months."""

    def make(self, names: Iterable[str], now: datetime) -> Bundle:
        return make_bundle(names, now)

    def fresh_authority(self, bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle:
        return with_fresh_authority(bundle, now)

    def fresh_serving(self, bundle: Bundle, names: Iterable[str], now: datetime) -> Bundle:
        return with_fresh_serving(bundle, names, now)

    def next_renewal(self, bundle: Bundle, now: datetime) -> datetime:
        return next_renewal(bundle, now)

    def fields(self, bundle: Bundle) -> Json:
        return {
            "labels": {"app.kubernetes.io/managed-by": "haulout"},
            "annotations": {},
            # An installation brings the Secret without data, which only this type allows.
            "type": "Opaque",
            "data": encode_secret(
                {
                    "ca.crt": bundle.authorities,
                    "ca.key": bundle.authority_key,
                    "tls.crt": bundle.serving.certificate,
                    "tls.key": bundle.serving.key,
                }
            ),
        }

    def read(self, secret: Mapping[str, Any]) -> Bundle:
        plain = decode_secret(secret, ("ca.crt", "ca.key", "tls.crt", "tls.key"))
        bundle = Bundle(plain["ca.crt"], plain["ca.key"], Pair(plain["tls.crt"], plain["tls.key"]))
        check(bundle)
        return bundle


def encode_secret(plain: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in plain.items()}


def decode_secret(secret: Mapping[str, Any], names: Iterable[str]) -> dict[str, bytes]:
    """Return the decoded values of these keys of a Secret. Raises Unusable."""
    data = secret.get("data") or {}
    try:
        return {name: base64.b64decode(data[name]) for name in names}
    except (KeyError, TypeError, binascii.Error) as error:
        raise Unusable(f"{type(error).__name__}: {error}") from error
