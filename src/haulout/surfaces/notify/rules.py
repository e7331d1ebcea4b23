"""What a configuration file must keep to beyond its types: known words, readable selectors, names that are unique."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache

from haulout.base.bounds import instant
from haulout.base.selector import Selector, SelectorError, parse
from haulout.base.weekday import parse_time_of_day, parse_weekday
from haulout.base.zones import zone
from haulout.core.drain.options import ACTS
from haulout.surfaces.notify.options import Blackout, Budget, Match, Notifications, Options, Scheduler, Window
from haulout.surfaces.notify.recipes import (
    ANSIBLE,
    AS_IS,
    BUILTIN,
    DELETE_JOB,
    JOB,
    LEAVE,
    OFF_NODE,
    ON_NODE,
    WEBHOOK,
    Recipe,
)
from haulout.surfaces.notify.wire import PLANNED, UNPLANNED

ALL_EVENTS = (
    *("Scheduled", "SLAStarted", "SLAExpired", "ObjectsDrained", "Validating", "MaintenanceIncomplete"),
    *("MaintenanceCancelled", "MaintenanceEnded", "MaintenanceComplete"),
)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PERCENT = re.compile(r"(\d{1,3})%")

# By block and key, the words that are known; the schema for editors has them too.
WORDS = {
    ("Notifications", "failurePolicy"): ("Block", "Continue"),
    ("Fairness", "groupBy"): ("maintenanceID", "owner", "namespace", "none"),
    ("Scheduler", "stacking"): ("Join", "Hold"),
    ("Drainer", "runToCompletion"): ("Wait", "Evict"),
    ("Drainer", "unmanagedPods"): ("Block", "Evict"),
    ("Drainer", "afterSLA"): ("Force", "Keep"),
    ("Recipe", "type"): (JOB, ANSIBLE, WEBHOOK, BUILTIN),
    ("Recipe", "placement"): (ON_NODE, OFF_NODE, AS_IS),
    ("Recipe", "onCancel"): (DELETE_JOB, LEAVE),
    ("Validator", "onMissingRecipe"): ("Hold", "Pass"),
    ("Returner", "uncordon"): ("IfOwned", "Always"),
}
Path = tuple[str, ...]
# Where, what is wrong, what would be right.
Flaw = tuple[Path, str, str]


@lru_cache(maxsize=256)
def selector(text: str) -> Selector:
    """Return the label selector that the text means. Raises SelectorError."""
    return parse(text)


def flaws(options: Options) -> Iterator[Flaw]:
    """Yield everything that is wrong with options that could be read."""
    yield from _notifications(options.notifications)
    operators, path = options.operators, ("operators",)
    for name in ("scheduler", "drainer", "runner", "validator", "returner"):
        yield from _match(getattr(operators, name).match, (*path, name, "match"))
    yield from _scheduler(operators.scheduler, (*path, "scheduler"))
    drainer = operators.drainer
    for number, policy in enumerate(drainer.policies):
        here = (*path, "drainer", "policies", str(number))
        yield from _selector(policy.selector, (*here, "selector"))
        yield from _word(policy.action.lower(), ACTS, (*here, "action"))
    words = (
        ("runToCompletion", drainer.run_to_completion),
        ("unmanagedPods", drainer.unmanaged_pods),
        ("afterSLA", drainer.after_sla),
    )
    for wire, value in words:
        yield from _word(value, WORDS["Drainer", wire], (*path, "drainer", wire))
    counts = (
        (drainer.max_concurrent_evictions, ("drainer", "maxConcurrentEvictions")),
        (operators.runner.max_concurrent, ("runner", "maxConcurrent")),
    )
    for count, place in counts:
        if count < 0:
            yield (*path, *place), "must not be below 0", "a number, as 10"
    spans = (("settle", drainer.settle), ("retryInterval", drainer.retry_interval), ("stuckAfter", drainer.stuck_after))
    for wire, span in spans:
        if span.total_seconds() < 0:
            yield (*path, "drainer", wire), "must not be below 0", "a duration, as 5s"
    yield from _recipes(operators.runner.recipes, (*path, "runner", "recipes"), (JOB, ANSIBLE, WEBHOOK))
    yield from _recipes(operators.validator.recipes, (*path, "validator", "recipes"), WORDS["Recipe", "type"])
    missing = operators.validator.on_missing_recipe
    yield from _word(missing, WORDS["Validator", "onMissingRecipe"], (*path, "validator", "onMissingRecipe"))
    yield from _word(operators.returner.uncordon, WORDS["Returner", "uncordon"], (*path, "returner", "uncordon"))


def _notifications(settings: Notifications) -> Iterator[Flaw]:
    path = ("notifications",)
    yield from _word(settings.failure_policy, WORDS["Notifications", "failurePolicy"], (*path, "failurePolicy"))
    if settings.sns.enabled not in (True, False, "auto"):
        yield (*path, "sns", "enabled"), f"{settings.sns.enabled} is not known", "auto, true or false"
    for name in ("sns", "webhook", "slack", "mail"):
        for event in getattr(settings, name).events:
            yield from _word(event, ALL_EVENTS, (*path, name, "events"))
    for name in ("webhook", "slack"):
        url = getattr(settings, name).url
        if url and not url.startswith(("https://", "http://")):
            yield (*path, name, "url"), "is not the address of a web server", "https://HOST/PATH"
    if settings.webhook.request_timeout.total_seconds() <= 0:
        yield (*path, "webhook", "requestTimeout"), "must be above 0", "a duration, as 30s"
    if settings.mail.address and not (settings.mail.sender and settings.mail.to):
        yield (*path, "mail"), "needs `from` and `to`", ""


def _match(match: Match, path: Path) -> Iterator[Flaw]:
    yield from _selector(match.selector, (*path, "selector"))
    yield from _selector(match.node_selector, (*path, "nodeSelector"))
    for kind in match.types:
        yield from _word(kind, (PLANNED, UNPLANNED), (*path, "types"))


def _scheduler(settings: Scheduler, path: Path) -> Iterator[Flaw]:
    seen: set[str] = set()
    for number, budget in enumerate(settings.budgets):
        here = (*path, "budgets", str(number))
        yield from _budget(budget, here)
        if budget.name in seen:
            yield (*here, "name"), f"there are two budgets of the name {budget.name}", ""
        seen.add(budget.name)
    for number, window in enumerate(settings.windows):
        yield from _window(window, (*path, "windows", str(number)))
    for number, blackout in enumerate(settings.blackouts):
        yield from _blackout(blackout, (*path, "blackouts", str(number)))
    yield from _word(settings.fairness.group_by, WORDS["Fairness", "groupBy"], (*path, "fairness", "groupBy"))
    for group, weight in settings.fairness.weights.items():
        if weight <= 0:
            yield (*path, "fairness", "weights", group), f"{weight:g} is not above 0", ""
    yield from _word(settings.stacking, WORDS["Scheduler", "stacking"], (*path, "stacking"))
    for wire, value in (("halfLife", settings.half_life), ("lostWorkScale", settings.lost_work_scale)):
        if value.total_seconds() <= 0:
            yield (*path, wire), "must be above 0", "a duration, as 15m"
    spans = (
        ("starvationAfter", settings.starvation_after),
        ("defaultMaintenance", settings.default_maintenance),
        ("defaultRunToCompletion", settings.default_run_to_completion),
    )
    for wire, value in spans:
        if value.total_seconds() < 0:
            yield (*path, wire), "must not be below 0", "a duration, as 15m"
    if not 0 <= settings.min_likelihood <= 1:
        yield (*path, "minLikelihood"), f"{settings.min_likelihood:g} is not from 0 to 1", "0.01"
    if settings.failure_threshold < 0:
        yield (*path, "failureThreshold"), "must not be below 0", "0: a campaign is never halted"
    gate = settings.alert_gate
    if gate is not None and not gate.url.startswith(("https://", "http://")):
        yield (*path, "alertGate", "url"), "is not the address of a Prometheus server", "https://HOST"
    if gate is not None and not gate.query.strip():
        yield (*path, "alertGate", "query"), "must not be empty", "ALERTS{severity='page'}"


def _budget(budget: Budget, path: Path) -> Iterator[Flaw]:
    yield from _selector(budget.node_selector, (*path, "nodeSelector"))
    most = budget.max_unavailable
    fits = most >= 0 if isinstance(most, int) else bool(_PERCENT.fullmatch(most)) and int(most[:-1]) <= 100
    if not fits:
        yield (*path, "maxUnavailable"), f"{most} is neither a number nor a percentage", "3 or 10%"
    if budget.per_topology is not None and budget.per_topology.max < 0:
        yield (*path, "perTopology", "max"), "must not be below 0", ""
    if not budget.name:
        yield (*path, "name"), "must not be empty", ""


def _window(window: Window, path: Path) -> Iterator[Flaw]:
    yield from _selector(window.node_selector, (*path, "nodeSelector"))
    for wire, text in (("start", window.start), ("end", window.end)):
        try:
            parse_time_of_day(text)
        except ValueError as error:
            yield (*path, wire), str(error), "22:00"
    try:
        zone(window.timezone)
    except ValueError as error:
        yield (*path, "timezone"), str(error), ""
    for day in window.days:
        try:
            parse_weekday(day)
        except ValueError as error:
            yield (*path, "days"), str(error), "Mon"


def _blackout(blackout: Blackout, path: Path) -> Iterator[Flaw]:
    yield from _selector(blackout.node_selector, (*path, "nodeSelector"))
    for wire, text in (("from", blackout.since), ("to", blackout.to)):
        if moment(text) is None:
            yield (*path, wire), f"{text} is not a time", "2026-12-24T00:00:00Z"
    since, to = moment(blackout.since), moment(blackout.to)
    if since is not None and to is not None and to <= since:
        yield (*path, "to"), f"the blackout ends before it begins ({blackout.since})", ""


def moment(text: str) -> datetime | None:
    """Return the instant of an RFC 3339 time, within bounds, or None if the text is none. Owners of pods write some of them."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant(at) if at.tzinfo is not None else None


def _recipes(recipes: Iterable[Recipe], path: Path, kinds: tuple[str, ...]) -> Iterator[Flaw]:
    seen: set[str] = set()
    for number, recipe in enumerate(recipes):
        here = (*path, str(number))
        if not _LABEL_VALUE.fullmatch(recipe.name):
            yield (*here, "name"), f"{recipe.name!r} is not a label value", "letters, digits, '-', '_' and '.'"
        if recipe.name in seen:
            yield (*here, "name"), f"there are two recipes of the name {recipe.name}", ""
        seen.add(recipe.name)
        yield from _word(recipe.type, kinds, (*here, "type"))
        yield from _word(recipe.placement, WORDS["Recipe", "placement"], (*here, "placement"))
        yield from _word(recipe.on_cancel, WORDS["Recipe", "onCancel"], (*here, "onCancel"))
        for wire, count in (("retries", recipe.retries), ("requestRetries", recipe.request_retries)):
            if count < 0:
                yield (*here, wire), "must not be below 0", ""
        if recipe.timeout.total_seconds() <= 0:
            yield (*here, "timeout"), "must be above 0", "a duration, as 2h"
        for wire in _lacking(recipe):
            yield (*here, wire), f"a recipe of type {recipe.type} needs it", ""


def _lacking(recipe: Recipe) -> Iterator[str]:
    if recipe.type == JOB and not recipe.template:
        yield "template"
    if recipe.type == WEBHOOK and not recipe.url:
        yield "url"
    if recipe.type == ANSIBLE:
        if not recipe.image:
            yield "image"
        if not recipe.namespace:
            yield "namespace"
        if recipe.playbook is None:
            yield "playbook"
        if recipe.ssh_key_secret is None:
            yield "sshKeySecret"


def _selector(text: str, path: Path) -> Iterator[Flaw]:
    try:
        selector(text)
    except SelectorError as error:
        yield path, str(error), "a label selector, as pool=batch"


def _word(word: str, known: Iterable[str], path: Path) -> Iterator[Flaw]:
    if word not in known:
        yield path, f"{word} is not known", f"one of {', '.join(known)}"
