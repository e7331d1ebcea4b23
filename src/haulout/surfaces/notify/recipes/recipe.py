"""Recipes: the configured ways to carry out a maintenance or a validation."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.surfaces.notify.config_file.spans import Span, block, span

JOB, ANSIBLE, WEBHOOK, BUILTIN = "job", "ansible", "webhook", "builtin"
ON_NODE, OFF_NODE, AS_IS = "OnNode", "OffNode", "AsIs"
DELETE_JOB, LEAVE = "DeleteJob", "Leave"
# The value of a recipe's namespace that means the namespace of the maintenance.
OF_THE_NOTICE = "@nm"


class _Block(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of the blocks of a recipe. An unknown key in them is an error."""


class Success(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What must be true of the node before an attempt counts as a success."""

    rebooted: bool = False
    node_ready: bool = False
    ready_for: Span = span("60s")


class Checks(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The built-in checks of a validation. `checks_timeout`: how long they have until all are true."""

    node_ready: bool = True
    ready_for: Span = span("30s")
    no_pressure: bool = True
    preserve_capacity: tuple[str, ...] = ()
    daemon_sets_ready: bool = False
    kubelet: str = ""
    checks_timeout: Span = span("15m")


class KeyOf(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A key of a Secret or ConfigMap."""

    name: str
    key: str


class Playbook(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The key of a ConfigMap that contains an Ansible playbook."""

    config_map: str
    key: str


class KnownHosts(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The key of a ConfigMap that contains the SSH host keys of nodes, by the names of the Nodes."""

    config_map: str
    key: str


class Recipe(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One way to carry out a step.

    `timeout`: the limit of a whole attempt.
    `namespace`: empty means that of Haulout, `@nm` that of the maintenance.
    `template`: a JobTemplateSpec.
    """

    name: str
    type: str
    timeout: Span = span("2h")
    retries: int = 0
    retry_backoff: Span = span("1m")
    on_cancel: str = DELETE_JOB
    success: Success = block(Success)
    namespace: str = ""
    placement: str = ON_NODE
    template: dict[str, Any] = {}
    image: str = ""
    playbook: Playbook | None = None
    ssh_key_secret: KeyOf | None = None
    known_hosts: KnownHosts | None = None
    user: str = ""
    extra_vars: dict[str, Any] = {}
    url: str = ""
    ca_file: str = ""
    token_secret: KeyOf | None = None
    hmac_secret: KeyOf | None = None
    request_timeout: Span = span("30s")
    request_retries: int = 5
    poll_interval: Span = span("30s")
    checks: Checks | None = None


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of the parts of a Job template. Only the fields that Haulout reads or changes are checked."""


class TemplateMeta(_Part, frozen=True, kw_only=True, rename="camel"):
    """The labels and annotations of a template. Haulout adds its own."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateContainer(_Part, frozen=True, kw_only=True, rename="camel"):
    """A container of a Job template. Haulout adds environment variables."""

    name: str
    image: str
    env: tuple[dict[str, Any], ...] = ()
    env_from: tuple[dict[str, Any], ...] = ()


class NodeTerm(_Part, frozen=True, kw_only=True, rename="camel"):
    """One alternative in the nodes that a pod may run on."""

    match_fields: tuple[dict[str, Any], ...] = ()


class NodeTerms(_Part, frozen=True, kw_only=True, rename="camel"):
    """The nodes that a pod may run on, as alternatives."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(_Part, frozen=True, kw_only=True):
    """The nodes that a pod may run on. Haulout adds that it must not run on the node in maintenance."""

    required: NodeTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(_Part, frozen=True, kw_only=True, rename="camel"):
    """Where a pod may run."""

    node_affinity: NodeAffinity | None = None


class TemplatePodSpec(_Part, frozen=True, kw_only=True, rename="camel"):
    """The pod of a Job template. Haulout sets its placement and its environment."""

    containers: tuple[TemplateContainer, ...]
    init_containers: tuple[TemplateContainer, ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: Affinity | None = None


class TemplatePod(_Part, frozen=True, kw_only=True, rename="camel"):
    """The pod template of a Job template."""

    spec: TemplatePodSpec
    metadata: TemplateMeta | None = None


class TemplateSpec(_Part, frozen=True, kw_only=True, rename="camel"):
    """The spec of a Job template."""

    template: TemplatePod


class JobTemplate(_Part, frozen=True, kw_only=True, rename="camel"):
    """The checked parts of a JobTemplateSpec. The API server validates the rest."""

    spec: TemplateSpec
    metadata: TemplateMeta | None = None
