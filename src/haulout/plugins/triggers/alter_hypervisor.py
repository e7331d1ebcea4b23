"""alterHypervisor: sets fields of the spec of the node's Hypervisor object."""

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.core.action import Patch
from haulout.plugins.api import Also, Config, Failed, TriggerInput, trigger
from haulout.plugins.config import Fields
from haulout.plugins.hypervisors import NEEDS, SPEC, HypervisorRow, check_fields, hypervisor_key, not_found, plain


class AlterHypervisor(Config, frozen=True, kw_only=True):
    """The settings of an `alterHypervisor` trigger: fields of the Hypervisor's spec with the values that they get.

    - {type: alterHypervisor, name: empty, config: {maintenance: manual}}
    """

    fields: Fields

    def validate(self) -> None:
        check_fields(self.fields, SPEC, "HypervisorSpec")


@trigger("alterHypervisor", AlterHypervisor, needs=lambda config: NEEDS)
def alter_hypervisor(config: AlterHypervisor, inputs: TriggerInput) -> NodeRow | Also | Failed:
    found = inputs.view.get(hypervisor_key(inputs.node.key), HypervisorRow)
    if found is None:
        return Failed(not_found(inputs.node.key))
    changes = {name: value for name, value in plain(config.fields).items() if found.spec[name] != value}
    if not changes:
        return inputs.node
    becomes = msgspec.structs.replace(found, spec={**found.spec, **changes})
    return Also(inputs.node, (Patch(found.key, {"spec": changes}, becomes=becomes),))
