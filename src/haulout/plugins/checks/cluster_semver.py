"""clusterSemver: passes while the version label of some other node says more than that of this one."""

from collections.abc import Iterable

from haulout.base.semver import SemverError, Version
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow
from haulout.plugins.api import CheckInput, Config, Verdict, check

LOWEST = Version("0.1.0")


class ClusterSemver(Config, frozen=True, kw_only=True):
    """The settings of a `clusterSemver` check.

    - `key`: the label that holds a node's version.
    - `profileScoped`: compare only with nodes that have the same profile.
    """

    key: str
    profile_scoped: bool = False


@check("clusterSemver", ClusterSemver)
def cluster_semver(config: ClusterSemver, given: CheckInput) -> Verdict:
    written = given.node.labels.get(config.key)
    if written is None:
        return Verdict(passed=False, error=f"node does not have label {config.key} containing version")
    try:
        own = Version(written)
    except SemverError as error:
        return Verdict(passed=False, error=f"failed to parse current nodes version label: {error}")
    newer = given.fleet.newer(config.key, own, given.profile if config.profile_scoped else "")
    passed = given.view.at_least(newer, (), 1) or own < LOWEST
    info: dict[str, object] = {"own": written}
    if given.view.explaining:
        names = [key.name for key in given.view.takers(Limit(newer, (), 1))]
        info["max"] = str(max((LOWEST, own, *_versions(config.key, names, given))))
    return Verdict(passed=passed, info=info)


def _versions(label: str, names: list[str], given: CheckInput) -> Iterable[Version]:
    rows = (given.view.node(name, given.node.key.cluster) for name in names)
    return (Version(row.labels[label]) for row in rows if isinstance(row, NodeRow) and label in row.labels)
