"""checkHypervisor: passes while fields of the status of the node's Hypervisor object have the given values."""

from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import Fields
from haulout.plugins.hypervisors import NEEDS, STATUS, HypervisorRow, checked, hypervisor_key, not_found, plain


class CheckHypervisor(Config, frozen=True, kw_only=True):
    """The settings of a `checkHypervisor` check: fields of the Hypervisor's status with the values that they must have."""

    fields: Fields

    def validate(self) -> None:
        checked(self.fields, STATUS, "HypervisorStatus")


@check("checkHypervisor", CheckHypervisor, needs=lambda config: NEEDS)
def check_hypervisor(config: CheckHypervisor, given: CheckInput) -> Verdict:
    found = given.view.get(hypervisor_key(given.node.key), HypervisorRow)
    if found is None:
        return Verdict(passed=False, error=not_found(given.node.key))
    return Verdict(passed=all(found.status[name] == value for name, value in plain(config.fields).items()))
