"""checkHypervisor: passes while fields of the status of the node's Hypervisor object have the given values."""

import json

from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import Fields
from haulout.plugins.hypervisors import NEEDS, STATUS, HypervisorRow, check_fields, hypervisor_key, not_found, plain


class CheckHypervisor(Config, frozen=True, kw_only=True):
    """The settings of a `checkHypervisor` check: fields of the Hypervisor's status with the values that they must have.

    - {type: checkHypervisor, name: empty, config: {evicted: true}}
    """

    fields: Fields

    def validate(self) -> None:
        check_fields(self.fields, STATUS, "HypervisorStatus")


@check("checkHypervisor", CheckHypervisor, needs=lambda config: NEEDS)
def check_hypervisor(config: CheckHypervisor, inputs: CheckInput) -> Verdict:
    found = inputs.view.get(hypervisor_key(inputs.node.key), HypervisorRow)
    if found is None:
        return Verdict(passed=False, error=not_found(inputs.node.key))
    wanted = plain(config.fields)
    wrong = [name for name, value in wanted.items() if found.status[name] != value]
    fields = (f"{name} is {_text(found.status[name])}, not {_text(wanted[name])}" for name in wrong)
    right = (f"{name} is {_text(value)}" for name, value in wanted.items())
    finding = f"in the status of the Hypervisor {'; '.join(fields if wrong else right) or 'no field is checked'}"
    return Verdict(passed=not wrong, finding=finding)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
