"""Where the embedded cluster answers differently on purpose.

Each entry is checked: it must still differ, and only there.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    case: str
    # Which steps of the transcript differ, counted from 1.
    steps: tuple[int, ...]
    reason: str


KUBELET = "paths that lead to a kubelet, and debugging of pods through them, are not served"

DIFFERENCES: tuple[Difference, ...] = (
    Difference("access_review[other-user]", (3,), "everybody may do everything here: RBAC is stored, not enforced"),
    Difference("discovery_all_at_once", (4, 5), KUBELET),
    Difference("discovery_of_the_core", (11,), KUBELET),
    Difference("ephemeral_containers", (4, 5), KUBELET),
    Difference("json_patch[negative-index]", (4,), "RFC 6902 knows no indexes from the end: refused"),
    Difference("methods_that_are_not_there", (13,), "componentstatuses are not served: deprecated, and read by nobody"),
    Difference("watch_by_the_old_path", (4, 5), "paths below /watch/ are not served: deprecated since 1.11"),
    Difference("webhook_with_a_match_condition", (5,), "CEL is not evaluated: the webhook is asked whatever it says"),
)

# What the comparison does not see, for all cases.
NOT_COMPARED: dict[str, str] = {
    "managedFields": "what a simulated controller writes is noted of a cordon alone, and nothing of that a map itself is managed beside its members; the cases about server-side apply compare the other fields of each manager",
    "values of UIDs, versions and generated suffixes": "a server's own choice; equality and order are compared",
    "instants near now": "two servers, two moments; that there is one, and its precision, is compared",
    "addresses of Services and their ports on nodes": "a server's own choice; that there are some is compared",
    "continue tokens": "opaque to clients",
    "prints of the real server's Go structures in messages": "the objects as Go holds them, for humans who debug it",
    "words of network failures of webhooks": "the network library's own",
    "words for what is no JSON or no regular expression": "the parser's own; that it is refused, and how, is compared",
}
