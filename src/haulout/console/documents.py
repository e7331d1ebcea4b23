"""The documents of the console's API that no command prints; all others are those of `status`, `explain` and `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from haulout.acts.answers import Offer, Permission
from haulout.core.declaration import Rollout
from haulout.core.logbook.wire import MaintenanceRecord
from haulout.explain.documents import ExplanationDocument
from haulout.explain.fleet import BudgetState, Cause, Failure, Work
from haulout.explain.installation import Installation
from haulout.explain.node_rows import FleetRow


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a login at the local door. `secret`: what stands behind `#` in the address that the console printed."""

    secret: str


class FleetDocument(msgspec.Struct, frozen=True):
    """The whole fleet.

    `epoch`: another one means that the console was started anew. `seq`: the number of this picture.
    `at`: the instant at which this was last known to be so.
    `tables`: for each kind that is read: `listed`, `not-yet`, or `unreadable: ` and why.
    """

    epoch: str
    seq: int
    at: datetime | None
    tables: Mapping[str, str]
    nodes: tuple[FleetRow, ...]


class CausesDocument(msgspec.Struct, frozen=True):
    """The root causes for which nodes wait, as in `haulout status -o json`."""

    causes: tuple[Cause, ...]


class FailuresDocument(msgspec.Struct, frozen=True):
    """What has failed or expired, as in `haulout status -o json`."""

    failures: tuple[Failure, ...]


class BudgetsDocument(msgspec.Struct, frozen=True):
    """The NodeDisruptionBudgets, as in `haulout status -o json`."""

    budgets: tuple[BudgetState, ...]


class RolloutsDocument(msgspec.Struct, frozen=True):
    """The objects that change many nodes, as in `haulout status -o json`."""

    rollouts: tuple[Rollout, ...]


class InstallationDocument(msgspec.Struct, frozen=True):
    """The installation of Haulout in the cluster, as in `haulout status -o json`."""

    installation: Installation


class WorksDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of the maintenances, as in `haulout status -o json`. `next_page`: what to send as `continue` for the next page."""

    works: tuple[Work, ...]
    next_page: str = msgspec.field(default="", name="continue")


class PodProgress(msgspec.Struct, frozen=True):
    """A pod of a node.

    `state`: why it is still there, in the words of drains; `Ignored`: no drain waits for it; `Running`: no drain runs.
    `until`: when its grace period ends.
    """

    namespace: str
    name: str
    state: str
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


class NodePage(msgspec.Struct, frozen=True):
    """Everything about one node, asked afresh.

    `row`: as in the fleet. `explain`: the document of `haulout explain -o json`. `works`: its maintenances.
    `pods`: null if pods cannot be read. `acts`: what can be done to it, by this caller, now.
    """

    at: datetime
    row: FleetRow
    explain: ExplanationDocument
    works: tuple[Work, ...]
    pods: tuple[PodProgress, ...] | None
    acts: tuple[Offer, ...] = ()


class RecordsDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of the logbook, newest first, in the form of `haulout history -o json`. `next_page`: as for maintenances."""

    records: tuple[MaintenanceRecord, ...]
    next_page: str = msgspec.field(default="", name="continue")


class WhoAmI(msgspec.Struct, frozen=True):
    """The caller.

    `door`: `local` or `bearer`. `acts`: every act, and whether the caller may do it anywhere.
    `cluster`: the cluster by the name that the console knows it by. `now`: the clock of the console.
    """

    user: str
    groups: tuple[str, ...]
    door: str
    acts: Mapping[str, Permission]
    cluster: str
    now: datetime
