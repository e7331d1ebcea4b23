"""The statements about a pass: events, counters and log lines."""

from __future__ import annotations

from haulout.core.action import Measure, Say, Statement, Tell
from haulout.surfaces.profiles.passes.result import Result

REPORTER = "maintenance"
WAITS = "The transition waits for its triggers"
FAILURES = "maintenance_controller_transition_failure_count"


def stored_statements(result: Result) -> tuple[Statement, ...]:
    """Return the statements to make once the pass is stored: about triggers that have run, and the transition."""
    key = result.node.key
    place = (("profile", result.profile), ("node", key.name))
    pulled = tuple(Say("Executed trigger instance", (("instance", name), *place)) for name in result.pulled)
    return (*pulled, *_moved(result)) if result.moved else pulled


def _moved(result: Result) -> tuple[Statement, ...]:
    key = result.node.key
    note = f"The node is now in the {result.next} state caused by profile {result.profile}"
    fields = (("state", result.next), ("profile", result.profile), ("node", key.name))
    return (
        Tell(key, "ChangedMaintenanceState", "ChangeMaintenanceState", note, REPORTER),
        Say("Moved node to next state", fields),
    )


def failure_statements(result: Result) -> tuple[Statement, ...]:
    """Return the statements about a profile that failed."""
    key = result.node.key
    note = f"{result.failure} for profile {result.profile}: Will stay in {result.state} state"
    fields = [("state", result.state), ("profile", result.profile), ("node", key.name), ("error", result.error)]
    verdicts = {name: verdict for judged in result.judged for name, verdict in judged.verdicts.items()}
    fields += [(f"error of {name}", verdict.error) for name, verdict in verdicts.items() if verdict.error]
    # The event is sent once while the same failure lasts, but each failed probe is counted.
    occasion = result.asked_again
    return (
        Tell(key, "ChangeMaintenanceStateFailed", "ChangeMaintenanceState", note, REPORTER),
        Measure(FAILURES, (("profile", result.profile),), occasion=occasion),
        # The original reports an unfinished trigger as a failure. In the log, where people look for errors, it is only
        # info.
        Say(WAITS, tuple(fields[:3]), "info") if result.goes_on else Say(result.failure, tuple(fields), "error"),
    )
