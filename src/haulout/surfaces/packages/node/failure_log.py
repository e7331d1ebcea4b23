"""The end of a failing container's log, kept in an annotation of the node and in an event where the settings ask for it."""

from __future__ import annotations

from datetime import timedelta

from haulout.cluster.view import FactDemand, View
from haulout.core.action import Tell
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node.draft import NodeDraft
from haulout.surfaces.packages.node.situation import VisitSituation
from haulout.surfaces.packages.pods.jobs import PackageJobRow
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult

PROBE = "package-log"
LARGEST = 2048
# The end of a log that is read. A Job has room for more of it than a Node.
LARGEST_READ = 16 * 1024
# A log is read once for each failure of its container. If it cannot be read, it is requested again after this time.
PACE_FOR = timedelta(hours=1)


def keep(situation: VisitSituation, draft: NodeDraft, view: View) -> tuple[Tell, ...]:
    """Write the last log lines of the first failing pod into an annotation of the node, and return the event.

    Both can be read by everyone who may read Nodes or events, and the log may hold secrets. So without the setting nothing
    is copied, and what an older operator has copied is removed.
    """
    if not situation.options.keep_failure_logs:
        draft.annotate(node_names.last_error(situation.intent.skyhook), None)
        return ()
    failing = next((pod for pod in situation.pods if _has_ended_badly(pod)), None)
    if failing is None or failing.about is None:
        return ()
    container = failing.verdict.container
    question = (failing.key.namespace, _worker(failing), container.name, container.restarts)
    answer = view.fact(FactDemand(PROBE, question, PACE_FOR)).value
    if not isinstance(answer, str) or not answer:
        return ()
    answer = tail(answer)
    draft.annotate(node_names.last_error(situation.intent.skyhook), answer)
    about = failing.about
    note = (
        f"Package [{about.name}:{about.version}] failed in stage [{about.stage}], container {container.name}: {answer}"
    )
    # The note of an event has room for 1 KiB.
    return (situation.tell_node("Failed", note[:1024], warning=True),)


def tail(log: str, largest: int = LARGEST) -> str:
    """Return the end of a log, at most this many bytes."""
    return log.encode()[-largest:].decode(errors="ignore")


def _worker(pod: PackagePodRow) -> str:
    """Return the name of the pod whose log is read: of a Job, that of its newest pod."""
    return pod.worker if isinstance(pod, PackageJobRow) else pod.key.name


def _has_ended_badly(pod: PackagePodRow) -> bool:
    return (
        pod.deleting_at is None
        and pod.verdict.result is PodResult.FAILED
        and pod.verdict.container.exit_code is not None
        and bool(_worker(pod))
    )
