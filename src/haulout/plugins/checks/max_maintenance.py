"""maxMaintenance: passes while fewer than `max` nodes are in maintenance, in all or in this node's group."""

from datetime import timedelta
from functools import cached_property

from haulout.cluster.key import name_list
from haulout.cluster.limits import Limit
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import GoDuration


class MaxMaintenance(Config, frozen=True, kw_only=True, dict=True):
    """The settings of a `maxMaintenance` check.

    - `profile`: count only nodes that have this profile.
    - `groupBy`: labels; only nodes that have the same values as this node are counted.
    - `groupLabel`: the older way to name one such label.
    - `skipAfter`: do not count nodes whose last transition is longer ago than this.

    - {type: maxMaintenance, name: two-of-a-zone, config: {max: 2, groupBy: [topology.kubernetes.io/zone]}}
    """

    max: int
    profile: str = ""
    group_by: tuple[str, ...] = ()
    group_label: str = ""
    skip_after: GoDuration = timedelta(0)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        older = (self.group_label,) if self.group_label and self.group_label not in self.group_by else ()
        return (*self.group_by, *older)


@check("maxMaintenance", MaxMaintenance)
def max_maintenance(config: MaxMaintenance, inputs: CheckInput) -> Verdict:
    labels = inputs.node.labels
    # A label that this node does not have, or has without a value, is left out of its group.
    keys = tuple([key for key in config.keys if labels.get(key)])
    group = tuple([labels[key] for key in keys])
    count = inputs.in_maintenance(config.profile, keys, config.skip_after)
    if config.skip_after and (unreadable := inputs.view.count(count, inputs.unreadable(group))):
        wrong = f"the maintenance data of {unreadable} nodes in maintenance cannot be read"
        names = name_list(inputs.counted(count, inputs.unreadable(group)))
        act = f"repair or remove the annotation of the maintenance data on {names}" if names else ""
        return Verdict(passed=False, error=wrong, act=act)
    pairs = ",".join([f"{key}={labels[key]}" for key in config.keys if key in labels])
    scope = f"nodes matching the {pairs} label selector" if pairs else "all nodes in the cluster"
    limits = (Limit(count, group, config.max),)
    # A limit of 0 never has room, so only another setting helps.
    act = "set `max` of the check to 1 or more" if config.max <= 0 else ""
    if inputs.may_wait:
        # An explanation also counts the nodes that are about to enter maintenance, as the limit itself does.
        taken = len(inputs.view.takers(limits[0])) if inputs.view.explaining else inputs.view.glance(count, group)
        info = {"scope": scope, "maintained": taken, "max": config.max}
        return Verdict(passed=True, limits=limits, info=info, act=act)
    maintained = inputs.view.count(count, group)
    info = {"scope": scope, "maintained": maintained, "max": config.max}
    finding = f"{maintained} of {config.max} {count.describe(group)}"
    return Verdict(passed=maintained < config.max, limits=limits, info=info, finding=finding, act=act)
