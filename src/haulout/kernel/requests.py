"""The requests of the actor to the outside world, and their answers: the seam between the kernel and its I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow, Row
from haulout.core.action import Create, Delete, Evict, Measure, Say, Send, Tell

# The beginning of the API server's message when an admission webhook refuses a request, with any code.
WEBHOOK = 'admission webhook "'


class Change(msgspec.Struct, frozen=True):
    """A merge patch.

    `slim`: only metadata changes, so that an answer with metadata alone is enough (K2).
    `strategic`: the server merges lists entry by entry.
    """

    target: Key
    body: Mapping[str, Any]
    version: int | None = None
    subresource: str = ""
    slim: bool = False
    strategic: bool = False


class Look(msgspec.Struct, frozen=True):
    """A GET whose answer enters the store like any event. It corrects our picture wherever that may be wrong."""

    target: Key


class ListPods(msgspec.Struct, frozen=True):
    """A consistent LIST of the pods of one node (`target`), which the proof with the key `proof` needs."""

    target: Key
    proof: Key


class Telling(msgspec.Struct, frozen=True):
    """An event to be recorded, with the version of its object at that time."""

    tell: Tell
    row: ObjectRow | None


Body = Change | Create | Evict | Delete | Look | ListPods | Telling | Measure | Say | Send


class Request(msgspec.Struct, frozen=True):
    """A request that the actor wants sent. Its answer is given back under the same `id`.

    `continues`: an earlier write of the same decision has been answered.
    """

    id: int
    body: Body
    continues: bool = False


class Done(msgspec.Struct, frozen=True):
    """The answer to a request that was carried out.

    `row`: the object in the answer. `metadata`: the object's metadata, where only that was asked for.
    `content`: the answer of the receiver of a message.
    """

    row: Row | None = None
    metadata: ObjectRow | None = None
    content: object = None


class Listed(msgspec.Struct, frozen=True):
    """The answer to a list: all of its rows, as they were at one `version`."""

    rows: tuple[Row, ...]
    version: int


class Refused(msgspec.Struct, frozen=True):
    """The answer to a request that the server did not carry out."""

    code: int
    message: str = ""
    retry_after: float | None = None
    # The reason that Kubernetes gives, where it gives one.
    cause: str = ""

    @property
    def by_budget(self) -> bool:
        return self.code == 429 and self.cause == "DisruptionBudget"

    @property
    def throttles(self) -> bool:
        """Whether the server itself asks for less traffic. A webhook's 429 is about one object."""
        return self.code == 429 and is_throttling(self.message, self.cause, self.retry_after)


class Lost(msgspec.Struct, frozen=True):
    """The outcome of a request to which no answer came.

    Whether the request was carried out is not known.
    """

    message: str = ""


class Withdrawn(msgspec.Struct, frozen=True):
    """The outcome of a request that was not sent.

    When its turn came, the rows were no longer as the decision had read them.
    """


Answer = Done | Listed | Refused | Lost | Withdrawn


def is_throttling(message: str, cause: str, retry_after: float | None) -> bool:
    """Whether a 429 comes from the server's own limits (API Priority and Fairness), which all requests have to obey.

    Such an answer has a Retry-After and no cause. A disruption budget names itself as the cause. An admission webhook
    (KubeVirt answers 429 while it migrates a virtual machine) refuses this one request, so others need not wait.
    """
    return retry_after is not None and not cause and not message.startswith(WEBHOOK)
