"""NodeDisruptionBudget as it is on the wire, and the row that is kept of it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

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
    """The row of a NodeDisruptionBudget. `spec` and `status` are as on the wire, not checked."""

    spec: Any = None
    status: Any = None
    generation: int = 0


def _row(obj: NodeDisruptionBudget, common: dict[str, Any]) -> NodeBudgetRow:
    return NodeBudgetRow(**common, spec=obj.spec, status=obj.status, generation=obj.metadata.generation)


NODE_BUDGETS = Resource(KIND, "/apis/haulout.dev/v1alpha1", "nodedisruptionbudgets", False, NodeDisruptionBudget, _row)
