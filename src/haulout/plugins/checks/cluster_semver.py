"""clusterSemver: passes while the version label of some other node says more than that of this one."""

from collections.abc import Iterable

from haulout.base.semver import SemverError, Version
from haulout.cluster.rows import NodeRow
from haulout.plugins.api import CheckInput, Config, Verdict, check

LOWEST = Version("0.1.0")


class ClusterSemver(Config, frozen=True, kw_only=True):
    """The settings of a `clusterSemver` check.

    - `key`: the label that holds a node's version.
    - `profileScoped`: compare only with nodes that have the same profile.

    - {type: clusterSemver, name: outdated, config: {key: example.com/os-version, profileScoped: true}}
    """

    key: str
    profile_scoped: bool = False


@check("clusterSemver", ClusterSemver)
def cluster_semver(config: ClusterSemver, inputs: CheckInput) -> Verdict:
    written = inputs.node.labels.get(config.key)
    if written is None:
        wrong = f"node does not have label {config.key} containing version"
        return Verdict(passed=False, error=wrong, act=f"set the label {config.key} on the node to its version")
    try:
        own = Version(written)
    except SemverError as error:
        wrong = f"failed to parse current nodes version label: {error}"
        act = f"set the label {config.key} on the node to a version, such as 1.2.3"
        return Verdict(passed=False, error=wrong, act=act)
    newer = inputs.fleet.newer(config.key, own, inputs.profile if config.profile_scoped else "")
    passed = inputs.view.at_least(newer, (), 1) or own < LOWEST
    info: dict[str, object] = {"own": written}
    finding = f"no other node has a version above {written} in the label {config.key}"
    if inputs.view.explaining:
        names = [key.name for key in inputs.counted(newer, ())]
        info["max"] = newest = str(max((LOWEST, own, *_versions(config.key, names, inputs))))
        if passed:
            finding = f"the version {written} in the label {config.key} of the node is below {newest}"
    return Verdict(passed=passed, info=info, finding=finding)


def _versions(label: str, names: list[str], inputs: CheckInput) -> Iterable[Version]:
    rows = (inputs.view.node(name, inputs.node.key.cluster) for name in names)
    return (Version(row.labels[label]) for row in rows if isinstance(row, NodeRow) and label in row.labels)
