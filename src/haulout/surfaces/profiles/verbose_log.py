"""The detailed log of a node with the log-details label: check results, and notifications that are not due."""

from __future__ import annotations

import json
from collections.abc import Iterator

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Say
from haulout.plugins.api import Verdict
from haulout.surfaces.profiles.passes.result import Result
from haulout.surfaces.profiles.wire import LOG_DETAILS_LABEL

WANTED = "true"


def details(node: NodeRow, results: list[Result], view: View) -> tuple[Say, ...]:
    """Return the log lines about a node. A line is logged once, and again when it changes."""
    if node.labels.get(LOG_DETAILS_LABEL) != WANTED:
        return ()
    return tuple(line for result in results for line in _of(result, view))


def _of(result: Result, view: View) -> Iterator[Say]:
    place = (("profile", result.profile), ("node", result.node.key.name))
    for instance, reasons in result.skipped:
        fields = (("instance", instance), *place)
        for reason in reasons:
            yield Say(reason, fields)
        yield Say("Notification instance is not scheduled to run", fields)
    for judged in result.judged:
        checks = {name: passes(verdict, view) for name, verdict in judged.verdicts.items()}
        answers = (("checks", json.dumps(checks)), ("expression", judged.transition.text))
        yield Say("results of check plugins", (*answers, *place))


def passes(verdict: Verdict, view: View) -> bool:
    """Whether a check passes.

    A check with limits passes while there is room. The counts are only glanced at, so that their changes do not wake
    the decision.
    """
    room = all(view.glance(each.count, each.group, each.cluster) < each.most for each in verdict.limits)
    return verdict.passed and not verdict.error and room
