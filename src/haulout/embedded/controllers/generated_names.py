"""Generated names, UIDs and hashes in the alphabet of the real ones, derived from a seed."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import msgspec

# Without vowels and their look-alikes (k8s.io/apimachinery pkg/util/rand).
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58


class Names:
    """The source of generated names, UIDs and numbers.

    The same calls in the same order give the same names, whatever else happens in the world.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._counts: dict[tuple[str, str], int] = {}

    def generated(self, namespace: str, base: str) -> str:
        """Return a name as `generateName` makes it: the base and five characters."""
        count = self._counts[namespace, base] = self._counts.get((namespace, base), 0) + 1
        digest = self._digest(namespace, base, str(count))
        suffix = "".join([ALPHABET[byte % len(ALPHABET)] for byte in digest[:5]])
        return base[:_LONGEST_BASE] + suffix

    def uuid(self, *words: str) -> str:
        """Return a UUID that depends only on the seed and the words."""
        return str(uuid.UUID(bytes=self._digest(*words)[:16], version=4))

    def number(self, *words: str, below: int) -> int:
        """Return a number that depends only on the seed and the words."""
        return int.from_bytes(self._digest(*words)[:8]) % below

    def _digest(self, *words: str) -> bytes:
        return hashlib.blake2b("\0".join((str(self._seed), *words)).encode(), digest_size=16).digest()


def content_hash(value: Any, collisions: int = 0) -> str:
    """Return a hash of a pod template with at most ten characters, as in `pod-template-hash`.

    Its digits are not those of the real one.
    """
    content = msgspec.json.encode(value, order="deterministic")
    if collisions:
        content += collisions.to_bytes(4, "little")
    return _safe(str(_fnv32a(content)))


def _fnv32a(content: bytes) -> int:
    state = 0x811C9DC5
    for byte in content:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return state


def _safe(text: str) -> str:
    return "".join(ALPHABET[ord(char) % len(ALPHABET)] for char in text)
