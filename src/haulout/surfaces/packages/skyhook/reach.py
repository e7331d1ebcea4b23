"""What every node reads of every Skyhook: which nodes it selects, and whether the Skyhooks after it have to wait.

These rows change rarely. All else is in the intent, which only the nodes read that the Skyhook concerns.
"""

from __future__ import annotations

from haulout.base.selector import Selector
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import MARK
from haulout.surfaces.packages.node.prefixes import ALONE, Home
from haulout.surfaces.packages.wire import unit_id

REACHES, HOLDERS = "packages-reach", "packages-holder"


class Reach(Row, frozen=True, kw_only=True):
    """The nodes that a Skyhook selects.

    `selector`: None if it is invalid.
    `owner`: the object that leads the Skyhook's unit. `home`: the prefixes under which the unit's keys are on nodes.
    """

    skyhook: str
    owner: Key
    selector: Selector | None = None
    home: Home = ALONE

    def selects(self, node: NodeRow) -> bool:
        return self.selector is not None and self.selector.matches(node.labels)


class Holder(Row, frozen=True, kw_only=True):
    """The mark of a Skyhook that holds back all later ones until it is complete on all its nodes."""

    rank: tuple[int, str]


def reach_key(owner: Key) -> Key:
    return Key("", MARK, REACHES, unit_id(owner))


def holder_key(owner: Key) -> Key:
    return Key("", MARK, HOLDERS, unit_id(owner))


def _reach(row: Row) -> tuple[str, ...]:
    return ("",) if isinstance(row, Reach) else ()


def _holder(row: Row) -> tuple[str, ...]:
    return ("",) if isinstance(row, Holder) else ()


ALL_REACHES, ALL_HOLDERS = Index("packages-reaches", MARK, _reach), Index("packages-holders", MARK, _holder)
