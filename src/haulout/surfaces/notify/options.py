"""The options of the notify surface: the blocks of its configuration file, with their defaults."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.core.drain.options import PodRules
from haulout.surfaces.notify.config_file.spans import Span, block, span
from haulout.surfaces.notify.recipes.recipe import Recipe

# The events that the original sends to SNS. `Scheduled` and `MaintenanceEnded` exist, too, but are off by default.
EVENTS = (
    *("SLAStarted", "SLAExpired", "ObjectsDrained", "Validating", "MaintenanceIncomplete"),
    *("MaintenanceComplete", "MaintenanceCancelled"),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of all blocks. An unknown key in them is an error."""


class Core(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How the state machine goes beyond the original.

    `node_gone_grace_period`: how long a deleted maintenance waits for a Node that does not exist; 0: no limit.
    `allow_retry`: whether an annotation may send a failed maintenance back to its maintenance step.
    """

    node_gone_grace_period: Span = span("1h")
    allow_retry: bool = False


class SecretKey(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One key of a Secret in the namespace of Haulout."""

    name: str
    key: str


class Sns(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Whether messages go to the SNS topics that maintenances name. `auto`: if there are credentials."""

    enabled: bool | str = "auto"
    events: tuple[str, ...] = EVENTS


class Webhook(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An HTTP receiver for the messages. `hmac_secret` signs the body, `token_secret` is sent as a bearer token."""

    url: str = ""
    events: tuple[str, ...] = EVENTS
    ca_file: str = ""
    token_secret: SecretKey | None = None
    hmac_secret: SecretKey | None = None
    request_timeout: Span = span("30s")


class Slack(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A Slack-compatible incoming webhook, which gets the text of the messages."""

    url: str = ""
    channel: str = ""
    events: tuple[str, ...] = EVENTS


class Mail(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mail server, and the recipients of messages. `address` is HOST:PORT."""

    address: str = ""
    sender: str = msgspec.field(default="", name="from")
    to: tuple[str, ...] = ()
    user: str = ""
    password_secret: SecretKey | None = None
    events: tuple[str, ...] = EVENTS


class Notifications(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The receivers of messages about maintenances.

    `failure_policy`: Block waits until a message is delivered, as the original does; Continue does not.
    """

    failure_policy: str = "Block"
    sns: Sns = block(Sns)
    webhook: Webhook = block(Webhook)
    slack: Slack = block(Slack)
    mail: Mail = block(Mail)


class Match(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which NotifyMaintenances an operator may act on.

    All conditions that are set must match; one that is not set matches all.
    """

    namespaces: tuple[str, ...] = ()
    maintenance_ids: tuple[str, ...] = msgspec.field(default=(), name="maintenanceIDs")
    types: tuple[str, ...] = ()
    selector: str = ""
    node_selector: str = ""


class Operator(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What every in-box operator has: it is off by default, and acts only on maintenances that it matches."""

    enabled: bool = False
    match: Match = block(Match)


class PerTopology(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """At most `max` nodes in flight among those that share the value of the label `key`."""

    key: str
    max: int


class Budget(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How many of the nodes that a selector matches may be unavailable."""

    name: str
    node_selector: str = ""
    max_unavailable: int | str = 1
    per_topology: PerTopology | None = None


class Window(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """When planned maintenances may start: weekly, on the clocks of a time zone."""

    days: tuple[str, ...] = ()
    start: str
    end: str
    timezone: str = "UTC"
    node_selector: str = ""


class Blackout(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A span of time in which no planned maintenance starts, whatever the windows say."""

    since: str = msgspec.field(name="from")
    to: str
    node_selector: str = ""


class Unplanned(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What unplanned maintenances may do that planned ones may not. `first`: start before planned ones."""

    first: bool = True
    bypass_windows: bool = True
    bypass_budgets: bool = False


class Weights(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How much each part of the score of a candidate counts."""

    drain: float = 1.0
    pdb: float = 0.25
    lost_work: float = 0.25
    age: float = 0.5
    priority: float = 1.0


class Fairness(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How starts are shared out between groups of maintenances.

    `group_by`: what makes a group. `weights`: the share of each group.
    """

    group_by: str = "maintenanceID"
    weights: dict[str, float] = {}


class AlertGate(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A Prometheus query: while it returns rows, no planned maintenance starts."""

    url: str
    query: str
    fail_open: bool = False


class History(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Whether the run times of finite pods are remembered for estimates."""

    enabled: bool = True


class Scheduler(Operator, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The operator that chooses which nodes go out of service next. `interval` is accepted, without effect."""

    dry_run: bool = False
    interval: Span = span("15s")
    budgets: tuple[Budget, ...] = (Budget(name="default"),)
    windows: tuple[Window, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    require_fit: bool = False
    default_maintenance: Span = span("30m")
    unplanned: Unplanned = block(Unplanned)
    starvation_after: Span = span("72h")
    min_likelihood: float = 0.0
    half_life: Span = span("15m")
    weights: Weights = block(Weights)
    lost_work_scale: Span = span("24h")
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    default_run_to_completion: Span = span("1h")
    fairness: Fairness = block(Fairness)
    failure_threshold: int = 3
    adopt_cordoned: bool = False
    stacking: str = "Join"
    reassert_cordon: bool = True
    history: History = block(History)
    alert_gate: AlertGate | None = None


class DrainPolicy(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What the drainer does with the pods that this policy selects. It comes before the built-in rules."""

    action: str
    namespaces: tuple[str, ...] = ()
    selector: str = ""
    controller_kinds: tuple[str, ...] = ()
    restart_policies: tuple[str, ...] = ()


class Drainer(Operator, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The operator that empties the nodes of started maintenances."""

    policies: tuple[DrainPolicy, ...] = ()
    run_to_completion: str = "Wait"
    unmanaged_pods: str = "Block"
    delete_empty_dir_data: bool = True
    after_sla: str = msgspec.field(default="Force", name="afterSLA")
    pdb_timeout: Span = span("10m")
    grace_period_seconds: int = -1
    forced_grace_period_seconds: int = -1
    stuck_after: Span = span("5m")
    force_delete_stuck: bool = False
    retry_interval: Span = span("5s")
    max_concurrent_evictions: int = 20
    settle: Span = span("5s")
    wait_for_volume_detach: bool = False
    honor_pod_annotations: bool = True


class Runner(Operator, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The operator that does the maintenance: by a Job, a playbook or a webhook, named by a recipe."""

    default_client: str = ""
    max_concurrent: int = 10
    recipes: tuple[Recipe, ...] = ()


class Validator(Operator, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The operator that checks a node after its maintenance."""

    default: str = ""
    on_missing_recipe: str = "Hold"
    recipes: tuple[Recipe, ...] = ()


class Returner(Operator, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The operator that gives validated nodes back to the cluster."""

    uncordon: str = "IfOwned"
    delete_validated: bool = True


class Operators(Settings, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The in-box operators. All of them are off by default."""

    scheduler: Scheduler = block(Scheduler)
    drainer: Drainer = block(Drainer)
    runner: Runner = block(Runner)
    validator: Validator = block(Validator)
    returner: Returner = block(Returner)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options that the decisions of this surface read.

    `alone`: it is the original's drop-in, so there are no other surfaces.
    `namespace`: that of Haulout itself.
    `sns`: whether messages go to SNS topics; it depends on the credentials.
    `rules`: the pod rules of all drains of the process.
    """

    sla_for: timedelta
    core: Core = block(Core)
    notifications: Notifications = block(Notifications)
    operators: Operators = block(Operators)
    alone: bool = True
    namespace: str = ""
    sns: bool = False
    rules: PodRules = PodRules()
