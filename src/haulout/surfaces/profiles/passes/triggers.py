"""The execution of a chain of triggers on the draft of a node."""

from __future__ import annotations

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import NotListed
from haulout.core.action import Write
from haulout.plugins.api import Also, Failed, Pulled, Retry, Trigger, TriggerInput
from haulout.surfaces.profiles.load import Instance
from haulout.surfaces.profiles.passes.result import Chain, ProfilePass, Result
from haulout.surfaces.profiles.refusals import Refused, author_of


class Pulling(msgspec.Struct, frozen=True):
    """The outcome of a chain of triggers.

    `writes`: writes to other objects, which are made even if a later trigger failed.
    `trouble`: why the chain stopped; None if all triggers are done.
    `refused`: the API server has refused a write to another object.
    """

    node: NodeRow
    writes: tuple[Write, ...] = ()
    trouble: Retry | Failed | None = None
    refused: Refused | None = None


def pull(chain: Chain, around: ProfilePass, result: Result) -> Pulling:
    """Run the triggers in order on the result's node, until one fails or is not finished."""
    node = result.node
    writes: tuple[Write, ...] = ()
    for instance in chain:
        pulled = _pulled(instance, _input(around, result, node))
        if isinstance(pulled, Retry | Failed):
            is_fine = isinstance(pulled, Retry) and pulled.goes_on
            reason = f"Trigger instance {instance.name} {'goes on' if is_fine else 'failed'}: {pulled.reason}"
            node = pulled.node if isinstance(pulled, Retry) else node
            return Pulling(node, writes, msgspec.structs.replace(pulled, reason=reason))
        if isinstance(pulled, Also):
            author = author_of(node, result.profile, instance)
            if pulled.writes and (refused := author.refusal(around.view, around.now)):
                reason = f"Trigger instance {instance.name} failed: {refused.refusal.message}"
                return Pulling(node, writes, Failed(reason), refused)
            writes, pulled = (*writes, *author.with_outcomes(pulled.writes)), pulled.node
        node = pulled
    return Pulling(node, writes)


def names_of(chain: Chain) -> tuple[str, ...]:
    """Return the names of the instances of a chain."""
    return tuple(instance.name for instance in chain)


def _input(around: ProfilePass, result: Result, node: NodeRow) -> TriggerInput:
    mode, since = around.mode, result.entry.transition.at
    return TriggerInput(node, result.profile, result.state, around.now, around.view, mode.alone, since, mode.rules)


def _pulled(instance: Instance[Trigger], trigger_input: TriggerInput) -> Pulled:
    try:
        return instance.plugin.pull(instance.config, trigger_input)
    except NotListed as off:
        if off.listing is Listing.WAITING:
            return Retry(str(off), trigger_input.node, only_stores=True)
        return Failed(str(off))
    except Exception as error:  # noqa: BLE001 - a plugin with a bug fails its own profile, and no other
        return Failed(f"{type(error).__name__}: {error}")
