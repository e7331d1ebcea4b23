"""Who asked for a maintenance: from what admission noted and proved, else from what the API server notes of clients."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from datetime import datetime, timedelta

from haulout.base.bounds import text
from haulout.cluster.rows import AskedRow, NodeRow, ObjectRow
from haulout.cluster.view import View
from haulout.core.logbook.options import KEY_NAME, People
from haulout.core.logbook.wire import LONGEST_NAME, REQUEST_PROOF, REQUESTED_BY, How, Requester
from haulout.model.meta import wire_time

# Admission notes the user just before the API server stores the object. A later object with the same note was made with
# a copy of it.
STORED_WITHIN_FOR = timedelta(seconds=60)
# What a hashed name begins with: with the key of the installation, and without one.
KEYED, HASHED = "hmac-sha256:", "sha256:"
# What is hashed begins with this, as no message of a proof does: that begins with a kind of objects.
NAMED = b"name\0"


def shown_name(user: str, people: People, key: bytes = b"") -> str:
    """Return the name of a user as it may be recorded.

    `key`: the key by which admission proves names. Without it, a reader who guesses a name can compare its hash.
    """
    if not user or people is People.NONE:
        return ""
    if people is not People.HASH or user.startswith((KEYED, HASHED)):
        return text(user, LONGEST_NAME)
    if key:
        return f"{KEYED}{hmac.digest(key, NAMED + user.encode(), 'sha256').hex()[:32]}"
    return f"{HASHED}{hashlib.sha256(user.encode()).hexdigest()[:32]}"


def proof_key(view: View) -> bytes:
    """Return the key by which admission proves names; empty in a process that serves no webhooks."""
    row = view.config(KEY_NAME)
    return row.value if row is not None and isinstance(row.value, bytes) else b""


def proof_of(key: bytes, subject: tuple[str, str, str], request: str, name: str, at: str) -> str:
    """Return the proof that admission saw this user ask.

    `subject`: kind, namespace and name of the object. `request`: the label that asks, for a Node; else empty.
    `name`: the user as recorded. `at`: the instant, as on the wire.
    """
    message = "\0".join((*subject, request, name, at)).encode()
    return f"{at} {urlsafe_b64encode(hmac.digest(key, message, 'sha256')).decode().rstrip('=')}"


def requester_of(
    row: ObjectRow | None,
    request: tuple[str, str] | None,
    key: bytes,
    people: People,
    begun_at: datetime | None = None,
) -> Requester:
    """Return who asked for the maintenance that an object asks for.

    `request`: the label of a Node that asks for it. `begun_at`: when the maintenance began. It stands for the time at
    which the label was set where the API server does not note that: it notes no clients of a Node that was created empty.
    """
    if row is None:
        return Requester()
    asked_at, manager = row.created_at, row.creator if isinstance(row, AskedRow) else ""
    if isinstance(row, NodeRow):
        author = next((each for each in row.authors if request is not None and each.label == request[0]), None)
        asked_at, manager = (author.at, author.manager) if author is not None else (begun_at, "")
    noted = row.annotations.get(REQUESTED_BY, "")
    if noted and key and asked_at is not None and _is_proven(row, request, noted, key, asked_at):
        return Requester(shown_name(noted, people, key), How.ADMISSION)
    if name := shown_name(noted or manager, people, key):
        return Requester(name, How.CLAIMED)
    return Requester()


def _is_proven(row: ObjectRow, request: tuple[str, str] | None, noted: str, key: bytes, asked_at: datetime) -> bool:
    proof = row.annotations.get(REQUEST_PROOF, "")
    at = proof.partition(" ")[0]
    label = "=".join(request) if request else ""
    subject = (row.key.kind, row.key.namespace, row.key.name)
    if not hmac.compare_digest(proof_of(key, subject, label, noted, at).encode(), proof.encode()):
        return False
    # The instant is ours, because the proof covers it.
    return abs(datetime.fromisoformat(at) - asked_at) <= STORED_WITHIN_FOR


def note_of(key: bytes, subject: tuple[str, str, str], request: str, user: str, now: datetime) -> dict[str, str]:
    """Return the annotations by which admission notes a user. `user`: as it may be recorded."""
    return {REQUESTED_BY: user, REQUEST_PROOF: proof_of(key, subject, request, user, wire_time(now))}
