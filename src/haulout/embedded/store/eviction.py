"""The eviction of pods under PodDisruptionBudgets (kubernetes, pkg/registry/core/pod/storage/eviction.go)."""

from __future__ import annotations

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.registry import Deletion, Registry
from haulout.embedded.store.selectors import compile_selector

_MAX_DISRUPTED = 2000


class Evictions:
    """The eviction subresource of pods: it deletes a pod if the PodDisruptionBudgets that select it allow that.

    In a brief world (see `Server`) the disruptions of an instant are counted here until the disruption controller has
    written the budget's status.
    """

    def __init__(self, registry: Registry, pods: Kind, budgets: Kind) -> None:
        self._registry = registry
        self._pods = pods
        self._budgets = budgets
        # By the UID of a budget: the stored object, the time stamp, and how many disruptions were spent of it since.
        self._spent: dict[str, tuple[Json, str, int]] = {}

    def evict(self, namespace: str, name: str, asked: Deletion) -> None:
        """Evict a pod. Raises `NotFound`, `Conflict`, and `TooManyRequests` if a budget allows no disruption."""
        pod = self._registry.table(self._pods).get(namespace, name)
        if pod is None:
            raise refusals.not_found("pods", "", name)
        if not _unguarded(pod):
            self._spend(pod, asked)
        # A refused precondition has spent the budget by now, as with the real server.
        self._delete(pod, asked)

    def _spend(self, pod: Json, asked: Deletion) -> None:
        budgets = self._matching(pod)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise refusals.unclassified_error(text)
        if budgets and not _free_of_charge(pod, budgets[0]):
            self._decrement(pod, budgets[0], dry_run=asked.dry_run)

    def _matching(self, pod: Json) -> list[Json]:
        labels: Json = pod["metadata"].get("labels") or {}
        pairs, found = labels.items(), list[Json]()
        for budget in self._registry.table(self._budgets).items(pod["metadata"]["namespace"]):
            written = budget["spec"].get("selector")
            wanted = written and written.get("matchLabels")
            # Most budgets are for other pods. A pod without all of these labels is not selected, whatever else is wanted.
            if wanted and not wanted.items() <= pairs:
                continue
            selector = compile_selector(written)
            if selector is not None and selector.matches(labels):
                found.append(budget)
        return found

    def _decrement(self, pod: Json, budget: Json, *, dry_run: bool) -> None:
        if self._registry.brief:
            self._count(budget, dry_run=dry_run)
            return
        status = budget["status"]
        _check_budget(budget)
        if dry_run:
            return
        allowed = status["disruptionsAllowed"] - 1
        disrupted = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: self._registry.stamp()}
        changed = {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted}
        if not allowed:
            changed["conditions"] = self._exhausted(status)
        self._registry.storage.put(self._registry.table(self._budgets), {**budget, "status": changed}, budget)

    def _count(self, budget: Json, *, dry_run: bool) -> None:
        uid, stamp, spent = budget["metadata"]["uid"], self._registry.stamp(), 0
        known = self._spent.get(uid)
        if known is not None and known[0] is budget and known[1] == stamp:
            spent = known[2]
        _check_budget(budget, spent)
        if not dry_run:
            self._spent[uid] = (budget, stamp, spent + 1)

    def _exhausted(self, status: Json) -> list[Json]:
        conditions: list[Json] = status.get("conditions", [])
        old = next((each for each in conditions if each["type"] == "DisruptionAllowed"), None)
        flipped = old is None or old["status"] != "False"
        new = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": self._registry.stamp() if flipped or old is None else old["lastTransitionTime"],
            "reason": "InsufficientPods",
            "message": "",
        }
        if old is None:
            return [*conditions, new]
        return [new if each is old else each for each in conditions]

    def _delete(self, pod: Json, asked: Deletion) -> None:
        kind, table = self._pods, self._registry.table(self._pods)
        self._registry.check_preconditions(kind, pod, asked)
        status: Json | None = None
        if not asked.dry_run:
            conditions = _with_condition(pod["status"].get("conditions", []), self._registry.stamp())
            if conditions is not None:
                status = {**pod["status"], "conditions": conditions}
            if status and not self._registry.brief:
                pod = self._registry.storage.put(table, {**pod, "status": status}, pod)
        deletion = Deletion(grace=asked.grace, propagation=asked.propagation, dry_run=asked.dry_run)
        self._registry.delete(kind, pod, deletion, status=status)


def _unguarded(pod: Json) -> bool:
    """Whether a pod is evicted without a budget: it has ended, has not started, or is being deleted."""
    return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in {"Succeeded", "Failed", "Pending"}


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _free_of_charge(pod: Json, budget: Json) -> bool:
    """Whether the budget allows the eviction of an unhealthy pod without counting it as a disruption."""
    if _is_ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def _check_budget(budget: Json, spent: int = 0) -> None:
    """Refuse an eviction that the budget does not allow. `spent`: the disruptions that its status does not show yet."""
    status, name = budget["status"], budget["metadata"]["name"]
    allowed = status["disruptionsAllowed"] - spent
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise refusals.budget_refuses(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed < 0:
        raise refusals.forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", ())) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise refusals.forbidden("poddisruptionbudget", "policy", name, why)
    if not allowed:
        raise refusals.budget_refuses(_why_not(name, status), 0)


def _why_not(name: str, status: Json) -> str:
    conditions = status.get("conditions", ())
    refusal: Json = next((each for each in conditions if each["type"] == "DisruptionAllowed"), {})
    says_no = refusal.get("status") == "False" and refusal.get("message")
    if says_no and refusal["reason"] == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {refusal['message']}"
    if status["currentHealthy"] <= status["desiredHealthy"]:
        return f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has {status['currentHealthy']} currently"
    if says_no:
        return f"The disruption budget {name} does not allow evicting pods currently ({refusal['reason']}): {refusal['message']}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _with_condition(conditions: list[Json], now: str) -> list[Json] | None:
    """Return the pod with the condition DisruptionTarget; None if it has it already."""
    new = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    old = next((each for each in conditions if each["type"] == "DisruptionTarget"), None)
    if old is None:
        return [*conditions, new]
    if old["status"] == "True":
        new["lastTransitionTime"] = old["lastTransitionTime"]
    if {**old, "lastProbeTime": None} == new:
        return None
    return [new if each is old else each for each in conditions]
