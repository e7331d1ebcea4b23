"""What the drainer does with each pod of a node: ignore it, wait for it, evict it, delete it, or be blocked by it."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.rows import PodRow
from haulout.core.drain.options import ACTS, POD_ANNOTATION, Act, Classes, DaemonSetLookup, Rule
from haulout.surfaces.notify.config_file.rules import selector
from haulout.surfaces.notify.options import Drainer

# The words in a pod's annotation that its owner may use. The others are for administrators.
_OWN_WORDS = {word: ACTS[word] for word in ("ignore", "wait", "evict")}


class PodClasses(Classes, frozen=True):
    """The drainer's rules for pods.

    `forced_since`: when the SLA expired and pods began to be removed by force; None if they are not.
    """

    settings: Drainer
    forced_since: datetime | None = None

    def act(self, pod: PodRow, daemonset: DaemonSetLookup, now: datetime) -> Act:
        act = self._graceful(pod, daemonset)
        return act if self.forced_since is None or act in (Act.IGNORE, Act.DELETE) else Act.EVICT

    def overrules(self, act: Act) -> bool:
        """Whether a pod goes although a rule for all drains keeps it: after the SLA, a pod that is waited for."""
        return self.forced_since is not None and act is Act.WAIT

    def past_budget_at(self, pod: PodRow) -> datetime | None:
        if self.settings.pdb_timeout < timedelta() or self.forced_since is None:
            return None
        return max(self.forced_since, pod.created_at or self.forced_since) + self.settings.pdb_timeout

    def _graceful(self, pod: PodRow, daemonset: DaemonSetLookup) -> Act:
        settings = self.settings
        if pod.spec.mirror or pod.ended:
            return Act.IGNORE
        if settings.honor_pod_annotations:
            word = pod.annotations.get(POD_ANNOTATION, "").strip().lower()
            if word in _OWN_WORDS:
                return _OWN_WORDS[word]
        ruled = next((rule.act for rule in _policies(settings) if rule.concerns(pod)), None)
        if ruled is not None:
            return ruled
        owner = pod.controller
        if owner is not None and owner.kind == "DaemonSet":
            if daemonset(pod.key.namespace, owner.name) is not False:
                return Act.IGNORE
            owner = None
        if owner is None:
            return ACTS[settings.unmanaged_pods.lower()]
        if pod.spec.local_data and not settings.delete_empty_dir_data:
            return Act.BLOCK
        return ACTS[settings.run_to_completion.lower()] if is_finite(pod) else Act.EVICT


def is_finite(pod: PodRow) -> bool:
    """Whether a pod ends by itself."""
    owner = pod.controller
    return pod.spec.restart_policy != "Always" or (owner is not None and owner.kind == "Job")


def _policies(settings: Drainer) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            act=ACTS[policy.action.lower()],
            namespaces=frozenset(policy.namespaces),
            selector=selector(policy.selector) if policy.selector else None,
            controller_kinds=frozenset(policy.controller_kinds),
            restart_policies=frozenset(policy.restart_policies),
        )
        for policy in settings.policies
    )
