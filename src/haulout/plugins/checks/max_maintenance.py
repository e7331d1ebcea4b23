"""maxMaintenance: passes while fewer than `max` nodes are in maintenance, in all or in this node's group."""

from datetime import timedelta

from haulout.cluster.limits import Limit
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import GoDuration


class MaxMaintenance(Config, frozen=True, kw_only=True):
    """The settings of a `maxMaintenance` check.

    - `profile`: count only nodes that have this profile.
    - `groupBy`: labels; only nodes that have the same values as this node are counted.
    - `groupLabel`: the older way to name one such label.
    - `skipAfter`: do not count nodes whose last transition is longer ago than this.
    """

    max: int
    profile: str = ""
    group_by: tuple[str, ...] = ()
    group_label: str = ""
    skip_after: GoDuration = timedelta(0)

    @property
    def keys(self) -> tuple[str, ...]:
        older = (self.group_label,) if self.group_label and self.group_label not in self.group_by else ()
        return (*self.group_by, *older)


@check("maxMaintenance", MaxMaintenance)
def max_maintenance(config: MaxMaintenance, given: CheckInput) -> Verdict:
    # A key that this node does not have, or has without a value, does not narrow its group.
    keys = tuple(key for key in config.keys if given.node.labels.get(key))
    group = tuple(given.node.labels[key] for key in keys)
    count = given.in_maintenance(config.profile, keys, config.skip_after)
    if config.skip_after and (unreadable := given.view.count(count, given.unreadable(group))):
        return Verdict(passed=False, error=f"the maintenance data of {unreadable} nodes in maintenance cannot be read")
    labels = given.node.labels
    pairs = ",".join(f"{key}={labels[key]}" for key in config.keys if key in labels)
    scope = f"nodes matching the {pairs} label selector" if pairs else "all nodes in the cluster"
    limits = (Limit(count, group, config.max),)
    if given.may_wait:
        # A person who asks sees those on their way into maintenance counted as well, as the limit counts them.
        taken = len(given.view.takers(limits[0])) if given.view.explaining else given.view.glance(count, group)
        info = {"scope": scope, "maintained": taken, "max": config.max}
        return Verdict(passed=True, limits=limits, info=info)
    maintained = given.view.count(count, group)
    info = {"scope": scope, "maintained": maintained, "max": config.max}
    return Verdict(passed=maintained < config.max, limits=limits, info=info)
