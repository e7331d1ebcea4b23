"""kubernikusCount: passes while the cluster has at least as many nodes as the node pools of Kubernikus ask for."""

from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.checks.node_count import Nodes
from haulout.plugins.cloud import CloudSecret

PROBE = "haulout.clients.kubernikus:pool_size"
ENOUGH = "found equal or more nodes than specified by nodepool"
LESS = "found less nodes than specified by nodepool"


class KubernikusCount(Config, frozen=True, kw_only=True):
    """The settings of a `kubernikusCount` check.

    Without a Secret of both name and namespace, the credentials are those of the process's file.

    - {type: kubernikusCount, name: enough, config: {cluster: my-cluster}}
    """

    cluster: str
    cloud_provider_secret: CloudSecret = CloudSecret()


@check("kubernikusCount", KubernikusCount, probe=PROBE)
def kubernikus_count(config: KubernikusCount, inputs: CheckInput) -> Verdict:
    fact = inputs.ask((config.cluster, *config.cloud_provider_secret.place))
    if fact.error:
        # The last answer is not used, because whether it is still true is the very question.
        return Verdict(passed=False, error=fact.error, times=fact.failures)
    if not isinstance(fact.value, int):
        return Verdict(passed=False, known=False, finding="Kubernikus has not answered yet")
    passed = inputs.view.at_least(Nodes(), (), fact.value)
    than = "at least as many nodes as" if passed else "fewer nodes than"
    finding = f"the cluster has {than} the {fact.value} of the node pools of {config.cluster} in Kubernikus"
    return Verdict(passed=passed, info={"reason": ENOUGH if passed else LESS}, finding=finding)
