"""The inputs of the decision about one Skyhook."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.view import View
from haulout.core.action import Edit
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import PackageConfigRow
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.wire import SkyhookRow
from haulout.surfaces.packages.wire_policy import PolicyRow


class SkyhookSituation(msgspec.Struct, frozen=True):
    """The inputs of one decision about a Skyhook.

    `desired`: the Skyhook with the packages that its nodes should have.
    `nodes`: the standings of its nodes, in order. `named`: the same, by name.
    `policy`: its DeploymentPolicy; None if it names none.
    `claimed`: the edits that note that it leads its unit.
    """

    row: SkyhookRow
    desired: SkyhookRow
    intent: Intent
    view: View
    now: datetime
    options: Options
    nodes: tuple[NodeStanding, ...]
    named: dict[str, NodeStanding]
    configs: tuple[PackageConfigRow, ...]
    policy: PolicyRow | None
    claimed: tuple[Edit, ...] = ()

    @property
    def resets(self) -> bool:
        """Whether the batch states are reset when the Skyhook is complete or a version changes."""
        own = self.row.spec.deployment_policy_options
        if own is not None and own.reset_batch_state_on_completion is not None:
            return own.reset_batch_state_on_completion
        return self.policy.resets if self.policy is not None else False

    @property
    def is_restoring(self) -> bool:
        return self.desired is not self.row
