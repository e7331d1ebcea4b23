"""hypervisorCondition: passes while a condition of the node's Hypervisor object has the given status."""

from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.checks.condition import status_verdict
from haulout.plugins.hypervisors import NEEDS, HypervisorRow, hypervisor_key, not_found


class HypervisorCondition(Config, frozen=True, kw_only=True):
    """The settings of a `hypervisorCondition` check: the type of a condition and the status that it must have.

    - {type: hypervisorCondition, name: offboarded, config: {type: Offboarded, status: "True"}}
    """

    type: str
    status: str


@check("hypervisorCondition", HypervisorCondition, needs=lambda config: NEEDS)
def hypervisor_condition(config: HypervisorCondition, inputs: CheckInput) -> Verdict:
    found = inputs.view.get(hypervisor_key(inputs.node.key), HypervisorRow)
    if found is None:
        return Verdict(passed=False, error=not_found(inputs.node.key))
    return status_verdict(found.condition(config.type), config.type, config.status, "the Hypervisor")
