"""eviction: cordons, uncordons or drains the node; a drain goes on until the node is empty."""

from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core import cordon
from haulout.core.action import CordonWish, KeepCordoned, Release, Say, Statement, Tell
from haulout.core.drain.options import CLUSTER_API_NODE, DrainOptions, DrainRow, drain_row
from haulout.core.drain.progress import PodStanding, Progress, Standing, conclusion
from haulout.core.drain.start_times import ANNOTATION as STARTED_ANNOTATION
from haulout.core.drain.start_times import start_times, with_start_times
from haulout.core.holds import Want
from haulout.plugins.api import Config, Keep, Retry, TriggerInput, trigger
from haulout.plugins.config import ConfigProblem, GoDuration

SURFACE = "profiles"
REPORTER = "maintenance"
ACTIONS = ("cordon", "uncordon", "drain")
NEEDS = frozenset({"Pod", "PodDisruptionBudget"})
# The states of pods whose eviction the API server refuses, or would refuse if it were requested.
REFUSED = frozenset({Standing.BUDGET, Standing.SEVERAL_BUDGETS, Standing.NAMESPACE, Standing.FAILED})

IN_PROGRESS = "drain still in progress"


class Eviction(Config, frozen=True, kw_only=True):
    """The settings of an `eviction` trigger.

    If a drain takes longer than the shorter time-out, a warning event is recorded, and the drain goes on. With
    `forceEviction`, the pods that are left after `evictionTimeout` are deleted.

    - {type: eviction, name: drain, config: {action: drain, evictionTimeout: 30m}}
    """

    action: str
    deletion_timeout: GoDuration = timedelta(minutes=10)
    eviction_timeout: GoDuration = timedelta(minutes=10)
    force_eviction: bool = False

    def validate(self) -> None:
        if self.action not in ACTIONS:
            raise ConfigProblem(f"got invalid eviction action: {self.action}", right=f"one of {', '.join(ACTIONS)}")


def _needs(config: Eviction) -> frozenset[str]:
    return NEEDS if config.action == "drain" else frozenset()


def _wants(config: Eviction) -> frozenset[Want]:
    wants = {"cordon": {Want.CORDON}, "drain": {Want.CORDON, Want.DRAIN}}
    return frozenset(wants.get(config.action, set()))


KEEPS = Keep(frozenset({STARTED_ANNOTATION, cordon.ANNOTATION}) | CLUSTER_API_NODE)


@trigger("eviction", Eviction, keeps=lambda config: KEEPS, needs=_needs, wants=_wants)
def eviction(config: Eviction, inputs: TriggerInput) -> NodeRow | Retry:
    match config.action:
        case "uncordon":
            return _uncordoned(inputs)
        case "cordon":
            return _cordoned(inputs)
        case _:
            return _drained(config, inputs)


def _cordoned(inputs: TriggerInput) -> NodeRow:
    return _foreseen(inputs, KeepCordoned(inputs.node.key, SURFACE))


def _uncordoned(inputs: TriggerInput) -> NodeRow:
    """Uncordon the node, even if this surface has not cordoned it, unless another surface claims the cordon."""
    # Without a ledger the cordon is not ours. The trigger removes it all the same: the configuration asks for that.
    return _foreseen(inputs, Release(inputs.node.key, SURFACE, restore=cordon.ledger(inputs.node) is not None))


def _foreseen(inputs: TriggerInput, wish: CordonWish) -> NodeRow:
    """Return the draft of the node with a wish about its cordon. The kernel makes the edits of it once more."""
    return cordon.foreseen(wish, inputs.node, inputs.view, keeps_ledger=not inputs.alone)


def _drained(config: Eviction, inputs: TriggerInput) -> NodeRow | Retry:
    node = _cordoned(inputs)
    since = start_times(node)
    began_at = since.get(inputs.profile)
    drain = _drain(config, inputs, began_at or inputs.now)
    state = conclusion(inputs.view, drain, inputs.now)
    if inputs.node.unschedulable and state.done:
        return with_start_times(node, {name: at for name, at in since.items() if name != inputs.profile})
    if state.proof_error:
        return Retry(f"the node cannot be shown to be empty: {state.proof_error}", inputs.node, (drain,))
    if state.proving:
        return Retry(IN_PROGRESS, inputs.node, (drain,), only_stores=True, goes_on=True)
    if began_at is None:
        begun = with_start_times(node, {**since, inputs.profile: inputs.now})
        says = _log_lines(inputs.node.key, state, begins=True)
        # Even if the node has no pods now, it counts as empty only after the cordon is stored: until then, new pods
        # can be scheduled on it.
        return Retry(IN_PROGRESS, begun, says=says, only_stores=state.cleared, goes_on=True)
    stalls_at = began_at + min(config.eviction_timeout, config.deletion_timeout)
    stalled = inputs.now >= stalls_at
    says = _log_lines(inputs.node.key, state) + (_stalled(inputs.node.key) if stalled else ())
    blocked = [each for each in state.pods if each.error or each.standing in REFUSED]
    reason = f"failed to delete/evict at least one pod: {_failures(blocked)}" if blocked else IN_PROGRESS
    goes_on = not blocked and not stalled
    return Retry(reason, node, (drain,), None if stalled else stalls_at, says, goes_on=goes_on)


def _failures(blocked: list[PodStanding]) -> str:
    return "; ".join(f"failed to evict pod {each.pod.key.name}: {each.error or each.message}" for each in blocked)


def _drain(config: Eviction, inputs: TriggerInput, began_at: datetime) -> DrainRow:
    """Return the row of the drain. It removes all pods except mirror pods and those of DaemonSets."""
    key = inputs.node.key
    options = DrainOptions(force=True, delete_local_data=True, any_daemonset=True, force_ending=config.force_eviction)
    owner = Key(key.cluster, "Node", "", f"{key.name}/{inputs.profile}")
    return drain_row(
        SURFACE,
        owner,
        key,
        options=options,
        rules=inputs.rules,
        since=inputs.since,
        deadline_at=began_at + config.eviction_timeout,
        force_after=config.force_eviction,
        forced_grace_for=None,
        reporter=REPORTER,
    )


def _log_lines(node: Key, state: Progress, *, begins: bool = False) -> tuple[Statement, ...]:
    """Return the log lines of the original operator about a drain.

    A line with another count is another line. So the count of pods is logged only once all of them are terminating.
    """
    place = ("node", node.name)
    if begins:
        line = Say("Going to evict pods from node.", (("count", str(len(state.pods))), place))
        return (line,) if state.pods else ()
    goes_on = Say("Drain still in progress; will continue in next reconcile", (place,))
    if state.pods and all(each.standing is Standing.TERMINATING for each in state.pods):
        count = ("count", str(len(state.pods)))
        return (Say("Waiting for pods to terminate after eviction.", (count, place)), goes_on)
    return (goes_on,)


def _stalled(node: Key) -> tuple[Statement, ...]:
    note = "The drain has not ended in time; it goes on"
    return (Tell(node, "DrainStalled", "Drain", note, REPORTER, warning=True),)
