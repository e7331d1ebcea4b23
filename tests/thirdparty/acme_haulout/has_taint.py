"""hasTaint: passes while the node has a taint with this key."""

from __future__ import annotations

from haulout.plugins.api import CheckInput, Config, Verdict, check


class HasTaint(Config, frozen=True, kw_only=True):
    key: str


@check("hasTaint", HasTaint)
def has_taint(config: HasTaint, inputs: CheckInput) -> Verdict:
    keys = sorted(taint.key for taint in inputs.node.taints)
    return Verdict(passed=config.key in keys, info={"taints": keys})
