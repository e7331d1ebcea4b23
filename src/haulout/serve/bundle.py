"""The certificates that replicas share, as data: without the library that makes and checks certificates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from haulout.serve.certificate_end import certificate_end
from haulout.serve.tls import Pair


class Bundle(msgspec.Struct, frozen=True):
    """The certificates and keys that replicas share.

    `authorities`: the authority that signs, then older ones whose certificates may still be in use.
    `serving`: the certificate that servers present, with its key.
    `ends_at`: an earlier end of the serving certificate than the one written in it, if there is one.
    """

    authorities: bytes
    authority_key: bytes
    serving: Pair
    ends_at: datetime | None = None

    def __repr__(self) -> str:
        return "Bundle(…)"

    def served_until(self) -> datetime:
        """Return when the serving certificate ends."""
        ends_at = certificate_end(self.serving.certificate)
        return ends_at if self.ends_at is None else min(ends_at, self.ends_at)


class FormName(msgspec.Struct, frozen=True):
    """A `SecretForm` by its name, so that naming it does not import it.

    `path`: module:class. `args`: what the class is called with. `strict`: webhooks count as ready only when all of them are
    registered with the authority.
    """

    path: str
    args: tuple[Any, ...] = ()
    strict: bool = False


class Unusable(Exception):
    """The stored certificates cannot be used: they are malformed, or do not fit together."""
