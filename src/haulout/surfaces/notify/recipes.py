"""How a maintenance or a validation is carried out: recipes, as they stand in the configuration file."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.surfaces.notify.spans import Span, block, span

JOB, ANSIBLE, WEBHOOK, BUILTIN = "job", "ansible", "webhook", "builtin"
ON_NODE, OFF_NODE, AS_IS = "OnNode", "OffNode", "AsIs"
DELETE_JOB, LEAVE = "DeleteJob", "Leave"
# As the namespace of a recipe: that of the maintenance.
OF_THE_NOTICE = "@nm"


class _Block(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of the blocks of a recipe: an unknown key is an error."""


class Success(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What must hold of the node before an attempt counts as a success."""

    rebooted: bool = False
    node_ready: bool = False
    ready_for: Span = span("60s")


class Checks(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The built-in checks of a validation, and how long they have to come true."""

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
    """Where an Ansible playbook stands: a key of a ConfigMap."""

    config_map: str
    key: str


class Recipe(_Block, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One way to carry out a step. `timeout` is that of a whole attempt.

    `namespace`: empty means the product's own, `@nm` that of the maintenance. `template` is a JobTemplateSpec.
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
    """The base of the parts of a Job template: only what we read or change has to be of a certain shape."""


class TemplateMeta(_Part, frozen=True, kw_only=True, rename="camel"):
    """The labels and annotations of a template, to which ours are added."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateContainer(_Part, frozen=True, kw_only=True, rename="camel"):
    """A container of a Job template, whose environment is completed."""

    name: str
    image: str
    env: tuple[dict[str, Any], ...] = ()
    env_from: tuple[dict[str, Any], ...] = ()


class NodeTerm(_Part, frozen=True, kw_only=True, rename="camel"):
    """An alternative of the nodes that a pod may run on."""

    match_fields: tuple[dict[str, Any], ...] = ()


class NodeTerms(_Part, frozen=True, kw_only=True, rename="camel"):
    """The alternatives of the nodes that a pod may run on."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(_Part, frozen=True, kw_only=True):
    """The nodes that a pod may run on, to which it is added that it keeps off the one in maintenance."""

    required: NodeTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(_Part, frozen=True, kw_only=True, rename="camel"):
    """Where a pod may run."""

    node_affinity: NodeAffinity | None = None


class TemplatePodSpec(_Part, frozen=True, kw_only=True, rename="camel"):
    """The pod of a Job template, which is placed and whose containers get their environment."""

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
    """A JobTemplateSpec, as far as its shape matters to us. The API server judges the rest."""

    spec: TemplateSpec
    metadata: TemplateMeta | None = None
