"""The rules of a configuration file beyond its types: allowed words, valid selectors, unique names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from haulout.base.bounds import instant
from haulout.base.number import digits
from haulout.base.selector import Selector, SelectorError, parse
from haulout.base.struct_reader import Flaw, Path
from haulout.base.weekday import parse_time_of_day, parse_weekday
from haulout.base.zones import zone
from haulout.surfaces.notify.config_file.reading import Reader
from haulout.surfaces.notify.config_file.spans import Span
from haulout.surfaces.notify.options import Blackout, Budget, Notifications, Options, Scheduler, Window
from haulout.surfaces.notify.recipes.recipe import (
    ANSIBLE,
    AS_IS,
    BUILTIN,
    DELETE_JOB,
    JOB,
    LEAVE,
    OF_THE_NOTICE,
    OFF_NODE,
    ON_NODE,
    WEBHOOK,
    JobTemplate,
    Recipe,
)
from haulout.surfaces.notify.wire import PLANNED, UNPLANNED

ALL_EVENTS = (
    *("Scheduled", "SLAStarted", "SLAExpired", "ObjectsDrained", "Validating", "MaintenanceIncomplete"),
    *("MaintenanceCancelled", "MaintenanceEnded", "MaintenanceComplete"),
)
LABEL_VALUE = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
NAMESPACE = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
PERCENT = "(100|[0-9]{1,2})%"

# The rules of single keys, by block and key. The JSON schema for editors uses them, too. WORDS has the allowed words of
# a value, or of each entry of a list.
WORDS = {
    ("Notifications", "failurePolicy"): ("Block", "Continue"),
    **{(block, "events"): ALL_EVENTS for block in ("Sns", "Webhook", "Slack", "Mail")},
    ("Match", "types"): (PLANNED, UNPLANNED),
    ("Fairness", "groupBy"): ("maintenanceID", "owner", "namespace", "none"),
    ("Scheduler", "stacking"): ("Join", "Hold"),
    ("DrainPolicy", "restartPolicies"): ("Always", "OnFailure", "Never"),
    ("Drainer", "runToCompletion"): ("Wait", "Evict"),
    ("Drainer", "unmanagedPods"): ("Block", "Evict"),
    ("Drainer", "afterSLA"): ("Force", "Keep"),
    ("Recipe", "type"): (JOB, ANSIBLE, WEBHOOK, BUILTIN),
    ("Recipe", "placement"): (ON_NODE, OFF_NODE, AS_IS),
    ("Recipe", "onCancel"): (DELETE_JOB, LEAVE),
    ("Validator", "onMissingRecipe"): ("Hold", "Pass"),
    ("Returner", "uncordon"): ("IfOwned", "Always"),
}
RUNNER_TYPES = (JOB, ANSIBLE, WEBHOOK)
# These are compared without regard to case.
ACTIONS = ("Ignore", "Wait", "Evict", "Delete", "Block")
# The lowest allowed value of numbers.
LEAST: dict[tuple[str, str], int] = {
    ("PerTopology", "max"): 0,
    ("Scheduler", "failureThreshold"): 0,
    ("Drainer", "gracePeriodSeconds"): -1,
    ("Drainer", "forcedGracePeriodSeconds"): -1,
    ("Drainer", "maxConcurrentEvictions"): 0,
    ("Runner", "maxConcurrent"): 0,
    ("Recipe", "retries"): 0,
    ("Recipe", "requestRetries"): 0,
}
# Durations that must be above 0, and durations that may be negative. All others may be 0 or more.
ABOVE_ZERO = frozenset(
    {
        *(("Webhook", "requestTimeout"), ("Recipe", "timeout"), ("Recipe", "requestTimeout")),
        *(("Scheduler", "halfLife"), ("Scheduler", "lostWorkScale")),
    }
)
OF_ANY_SIGN = frozenset({("Drainer", "pdbTimeout"), ("Scheduler", "interval")})
# Texts that must not be empty.
NEEDED = frozenset(
    {
        *(("Budget", "name"), ("PerTopology", "key"), ("AlertGate", "query")),
        *((block, key) for block in ("SecretKey", "KeyOf") for key in ("name", "key")),
        *((block, key) for block in ("Playbook", "KnownHosts") for key in ("configMap", "key")),
    }
)
# Addresses of web servers. An empty text means that there is none.
ADDRESSES = frozenset({("Webhook", "url"), ("Slack", "url"), ("Recipe", "url"), ("AlertGate", "url")})
SELECTORS = frozenset(
    {
        *((block, "selector") for block in ("Match", "DrainPolicy")),
        *((block, "nodeSelector") for block in ("Match", "Budget", "Window", "Blackout")),
    }
)
# The keys that a recipe of each type needs.
NEEDS = {
    JOB: ("template",),
    WEBHOOK: ("url",),
    ANSIBLE: ("image", "namespace", "playbook", "sshKeySecret"),
}


@lru_cache(maxsize=256)
def selector(text: str) -> Selector:
    """Return the parsed label selector. Raises SelectorError."""
    return parse(text)


def flaws(options: Options) -> Iterator[Flaw]:
    """Yield all problems of options whose types are right."""
    operators, path = options.operators, ("operators",)
    yield from _block(options.core, ("core",))
    yield from _block(options.notifications, ("notifications",))
    yield from _block(operators, path)
    yield from _notifications(options.notifications)
    yield from _scheduler(operators.scheduler, (*path, "scheduler"))
    for number, policy in enumerate(operators.drainer.policies):
        if policy.action.capitalize() not in ACTIONS:
            yield _unknown((*path, "drainer", "policies", str(number), "action"), policy.action, ACTIONS)
    yield from _recipes(operators.runner.recipes, (*path, "runner", "recipes"), RUNNER_TYPES)
    yield from _recipes(operators.validator.recipes, (*path, "validator", "recipes"), WORDS["Recipe", "type"])


def _block(block: msgspec.Struct, path: Path) -> Iterator[Flaw]:
    """Yield the problems of the keys of a block and of its inner blocks, by the rules of single keys."""
    for field in msgspec.structs.fields(type(block)):
        value, here = getattr(block, field.name), (*path, field.encode_name)
        yield from _key((type(block).__name__, field.encode_name), value, here)
        inner = value if isinstance(value, tuple) else (value,)
        for number, each in enumerate(inner):
            if isinstance(each, msgspec.Struct):
                yield from _block(each, (*here, str(number)) if isinstance(value, tuple) else here)


def _key(key: tuple[str, str], value: Any, path: Path) -> Iterator[Flaw]:
    if key in WORDS:
        entries = value if isinstance(value, tuple) else (value,)
        for number, word in enumerate(entries):
            if word not in WORDS[key]:
                yield _unknown((*path, str(number)) if isinstance(value, tuple) else path, word, WORDS[key])
    if key in LEAST and value < LEAST[key]:
        yield path, f"must not be below {LEAST[key]}", "a number, as 10"
    if isinstance(value, Span) and key not in OF_ANY_SIGN:
        if key in ABOVE_ZERO and value <= timedelta():
            yield path, "must be above 0", "a duration, as 15m"
        elif value < timedelta():
            yield path, "must not be below 0", "a duration, as 15m"
    if key in NEEDED and not value.strip():
        yield path, "must not be empty", "a text"
    if key in ADDRESSES and value and not is_address(value):
        yield path, "is not the address of a web server", "https://HOST/PATH"
    if key in SELECTORS:
        yield from _selector(value, path)


def is_address(text: str) -> bool:
    """Whether a text is the address of a web server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _notifications(notifications: Notifications) -> Iterator[Flaw]:
    path = ("notifications",)
    if notifications.sns.enabled not in (True, False, "auto"):
        yield _unknown((*path, "sns", "enabled"), str(notifications.sns.enabled), ("auto", "true", "false"))
    mail, here = notifications.mail, (*path, "mail")
    if not mail.address:
        return
    host, _, port = mail.address.rpartition(":")
    number = digits(port, 5)
    if not host or number is None or number > 65535:
        yield (*here, "address"), f"{mail.address} is not the address of a mail server", "HOST:PORT"
    for wire, value in (("from", mail.sender), ("to", mail.to)):
        if not value:
            yield (*here, wire), "is missing, and a mail server is set", "the address of a mailbox"


def _scheduler(scheduler: Scheduler, path: Path) -> Iterator[Flaw]:
    yield from _unique([budget.name for budget in scheduler.budgets], "budgets", (*path, "budgets"))
    for number, budget in enumerate(scheduler.budgets):
        yield from _budget(budget, (*path, "budgets", str(number)))
    for number, window in enumerate(scheduler.windows):
        yield from _window(window, (*path, "windows", str(number)))
    for number, blackout in enumerate(scheduler.blackouts):
        yield from _blackout(blackout, (*path, "blackouts", str(number)))
    for group, weight in scheduler.fairness.weights.items():
        if weight <= 0:
            yield (*path, "fairness", "weights", group), f"{weight:g} is not above 0", "a number, as 2"
    if not 0 <= scheduler.min_likelihood <= 1:
        yield (*path, "minLikelihood"), f"{scheduler.min_likelihood:g} is not from 0 to 1", "a number, as 0.01"
    if scheduler.alert_gate is not None and not scheduler.alert_gate.url:
        yield (*path, "alertGate", "url"), "must not be empty", "the address of a Prometheus server, as https://HOST"


def _unique(names: Iterable[str], kind: str, path: Path) -> Iterator[Flaw]:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield (*path, str(number), "name"), f"there are two {kind} of the name {name}", "a name of its own"
        seen.add(name)


def _budget(budget: Budget, path: Path) -> Iterator[Flaw]:
    most = budget.max_unavailable
    if not (most >= 0 if isinstance(most, int) else re.fullmatch(PERCENT, most)):
        yield (*path, "maxUnavailable"), f"{most} is neither a number nor a percentage", "3 or 10%"


def _window(window: Window, path: Path) -> Iterator[Flaw]:
    for wire, text in (("start", window.start), ("end", window.end)):
        try:
            parse_time_of_day(text)
        except ValueError as error:
            yield (*path, wire), str(error), "22:00"
    try:
        zone(window.timezone)
    except ValueError as error:
        yield (*path, "timezone"), str(error), ""
    for number, day in enumerate(window.days):
        try:
            parse_weekday(day)
        except ValueError as error:
            yield (*path, "days", str(number)), str(error), "Mon"


def _blackout(blackout: Blackout, path: Path) -> Iterator[Flaw]:
    for wire, text in (("from", blackout.since), ("to", blackout.to)):
        if moment(text) is None:
            yield (*path, wire), f"{text} is not a time", "2026-12-24T00:00:00Z"
    since, to = moment(blackout.since), moment(blackout.to)
    if since is not None and to is not None and to <= since:
        yield (*path, "to"), f"the blackout ends before it begins ({blackout.since})", "a later time"


def moment(text: str) -> datetime | None:
    """Return the time of an RFC 3339 text, clamped to bounds; None if it is not one.

    Owners of pods write such texts.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant(at) if at.tzinfo is not None else None


def _recipes(recipes: tuple[Recipe, ...], path: Path, kinds: tuple[str, ...]) -> Iterator[Flaw]:
    yield from _unique([recipe.name for recipe in recipes], "recipes", path)
    for number, recipe in enumerate(recipes):
        here = (*path, str(number))
        if not re.fullmatch(LABEL_VALUE, recipe.name):
            yield (*here, "name"), f"{recipe.name!r} is not a label value", "letters, digits, '-', '_' and '.'"
        if recipe.type in WORDS["Recipe", "type"] and recipe.type not in kinds:
            yield _unknown((*here, "type"), recipe.type, kinds)
        values = {field.encode_name: getattr(recipe, field.name) for field in msgspec.structs.fields(Recipe)}
        for wire in NEEDS.get(recipe.type, ()):
            if not values[wire]:
                yield (*here, wire), f"a recipe of type {recipe.type} needs it", _NEEDED_AS[wire]
        yield from _namespace(recipe, (*here, "namespace"))
        if recipe.template:
            yield from _template(recipe.template, (*here, "template"))


_NEEDED_AS = {
    "template": "a JobTemplateSpec: {spec: {template: {spec: {containers: [...]}}}}",
    "url": "the address of a web server, as https://HOST/PATH",
    "image": "an image with Ansible in it",
    "namespace": "the namespace of the playbook and of the key",
    "playbook": "{configMap: NAME, key: KEY}",
    "sshKeySecret": "{name: NAME, key: KEY}",
}


def _template(template: dict[str, Any], path: Path) -> Iterator[Flaw]:
    reader = Reader()
    made: JobTemplate | None = reader.block(JobTemplate, template, path)
    yield from reader.flaws
    if made is not None and not made.spec.template.spec.containers:
        yield (*path, "spec", "template", "spec", "containers"), "must not be empty", "one container at least"


def _namespace(recipe: Recipe, path: Path) -> Iterator[Flaw]:
    """Yield the problems of a recipe's namespace.

    A playbook and its SSH key must not be in a namespace that users of maintenances may control.
    """
    if recipe.namespace == OF_THE_NOTICE and recipe.type == ANSIBLE:
        yield path, f"{OF_THE_NOTICE} is not allowed for a recipe of type {ANSIBLE}", "the name of a namespace"
    elif recipe.namespace not in ("", OF_THE_NOTICE) and not re.fullmatch(NAMESPACE, recipe.namespace):
        yield path, f"{recipe.namespace!r} is not the name of a namespace", f"maintenance, or {OF_THE_NOTICE}"


def _selector(text: str, path: Path) -> Iterator[Flaw]:
    try:
        selector(text)
    except SelectorError as error:
        yield path, str(error), "a label selector, as pool=batch"


def _unknown(path: Path, word: str, known: Iterable[str]) -> Flaw:
    return path, f"{word} is not known", f"one of {', '.join(known)}"
