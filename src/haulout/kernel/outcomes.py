"""The results of messages and of refused writes, as rows that decisions read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import OUTCOME
from haulout.core.action import Refusal, Send
from haulout.kernel.jobs import Job
from haulout.kernel.outbox import Outbox
from haulout.kernel.requests import Answer, Done, Lost, Refused, Withdrawn
from haulout.kernel.work import Work


class Outcomes:
    """Sends messages, each once at a time, and keeps a row for each message and each refusal that a decision names."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox

    def send(self, messages: Iterable[Send], now: datetime, work: Work | None = None) -> None:
        """Send the messages of a decision, except those that are being sent already."""
        for message in messages:
            known = self._known(message.outcome)
            if known is None or known.state != "pending":
                # The error of the last attempt stays until this attempt has ended.
                error, failures = (known.error, known.failures) if known else ("", 0)
                row = Value(key=_key(message.outcome), state="pending", value=now, error=error, failures=failures)
                self._store.write(row)
                self._outbox.send(message, work)

    def on_delivery(self, message: Send, answer: Answer, now: datetime) -> None:
        """Keep the result of a message, if a decision still reads it."""
        known = self._known(message.outcome)
        if known is None:
            return
        if isinstance(answer, Done):
            self._store.write(Value(key=known.key, state="done", value=now, content=answer.content))
            return
        if isinstance(answer, Withdrawn) and not known.failures:
            # It was not sent, so that it is due as before.
            self._store.erase(known.key)
            return
        error = answer.message if isinstance(answer, Refused | Lost) else known.error
        failures = known.failures + (not isinstance(answer, Withdrawn))
        self._store.write(
            Value(key=known.key, state="failed", value=now, error=error, failures=failures, settings=message.settings)
        )

    def on_refusal(self, job: Job, answer: Refused, now: datetime) -> None:
        """Keep the refusal of a write, if the write names a row for it."""
        if not job.outcome:
            return
        known = self._known(job.outcome)
        failures = known.failures + 1 if known else 1
        refusal = Refusal(answer.code, answer.message, answer.cause, now)
        row = Value(key=_key(job.outcome), state="failed", value=refusal, error=answer.message, failures=failures)
        self._store.write(row)

    def _known(self, name: str) -> Value | None:
        row = self._store.row(_key(name))
        return row if isinstance(row, Value) else None


def _key(name: str) -> Key:
    return Key("", OUTCOME, "", name)
