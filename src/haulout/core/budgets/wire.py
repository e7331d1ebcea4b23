"""NodeDisruptionBudget as it is on the wire, and the row that is kept of it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from haulout.base.bounds import LEFT_OUT, ORDINARY, is_within
from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow
from haulout.model.meta import ObjectMeta

KIND = "NodeDisruptionBudget"


class NodeDisruptionBudget(Struct, frozen=True):
    """A NodeDisruptionBudget (haulout.dev/v1alpha1) as the API server sends it, not checked.

    `spec` may have any shape. If an invalid spec failed to decode, the budget would be overlooked; but it must refuse
    claims.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None


class NodeBudgetRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The row of a NodeDisruptionBudget. `spec` and `status` are as on the wire, not checked.

    A spec that is too large is `LEFT_OUT`. The budget is then invalid: a part of a selector would select other nodes.
    """

    spec: Any = None
    status: Any = None
    generation: int = 0


def _row(obj: NodeDisruptionBudget, common: dict[str, Any]) -> NodeBudgetRow:
    spec = obj.spec if is_within(obj.spec, ORDINARY) else LEFT_OUT
    # Without the stored status, the operator writes it again.
    status = obj.status if is_within(obj.status, ORDINARY) else None
    return NodeBudgetRow(**common, spec=spec, status=status, generation=obj.metadata.generation)


NODE_BUDGETS = Resource(
    KIND, "/apis/haulout.dev/v1alpha1", "nodedisruptionbudgets", False, NodeDisruptionBudget, _row, bounds=None
)
