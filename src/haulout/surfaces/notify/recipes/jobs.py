"""The Jobs of maintenances and validations: their rows, and the objects that are created from recipes."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Hashable
from datetime import datetime
from typing import Any

from haulout.base.bounds import instant
from haulout.base.number import digits
from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import NodeRow, ObjectRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.model.meta import wire_time
from haulout.model.workloads import Job
from haulout.surfaces.notify.notice.messages import go_json
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.recipe import ANSIBLE, OF_THE_NOTICE, OFF_NODE, ON_NODE, Recipe
from haulout.surfaces.notify.wire import API_VERSION, KIND, NoticeRow

# This is a kind of its own, so that only Jobs with our label are watched.
JOB_KIND = "MaintenanceJob"
ROLE, NOTICE_UID, RECIPE, ATTEMPT = (
    "haulout.dev/role",
    "haulout.dev/nm-uid",
    "haulout.dev/recipe",
    "haulout.dev/attempt",
)
NOTICE = "haulout.dev/nm"
COMPLETE, FAILED = "Complete", "Failed"
DAY_SECONDS = 86_400
# The value of an Ansible variable that reads an environment variable.
_LOOKUP = "{{{{ lookup('ansible.builtin.env', '{}') }}}}"


class JobRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a Job of a maintenance or validation.

    `outcome`: Complete, Failed or, while it runs, empty. `owned`: it has an owner reference.
    """

    outcome: str = ""
    reason: str = ""
    ended_at: datetime | None = None
    owned: bool = False

    @property
    def is_running(self) -> bool:
        return not self.outcome and self.deleting_at is None

    @property
    def attempt(self) -> int:
        return digits(self.labels.get(ATTEMPT, ""), 8) or 0

    @property
    def notice(self) -> Key:
        namespace, _, name = self.annotations.get(NOTICE, "").partition("/")
        return Key("", KIND, namespace, name)


def _project(obj: Job, common: dict[str, Any]) -> JobRow:
    ended = [each for each in obj.status.conditions if each.type in (COMPLETE, FAILED) and each.status == "True"]
    first = ended[0] if ended else None
    return JobRow(
        **common,
        outcome=first.type if first else "",
        reason=first.reason if first else "",
        ended_at=instant(first.last_transition_time) if first else None,
        owned=bool(obj.metadata.owner_references),
    )


RESOURCE = Resource(JOB_KIND, "/apis/batch/v1", "jobs", True, Job, _project, labels=ROLE)


def _notice_of(row: Row) -> tuple[Hashable, ...]:
    return (row.labels.get(NOTICE_UID, ""),) if isinstance(row, JobRow) else ()


JOBS_OF_NOTICE = Index("jobs-of-notice", JOB_KIND, _notice_of)


def _running_as(row: Row) -> tuple[Hashable, ...]:
    return (row.labels.get(ROLE, ""),) if isinstance(row, JobRow) and row.is_running else ()


RUNNING_JOBS = Index("running-jobs", JOB_KIND, _running_as)


def job_key(row: NoticeRow, recipe: Recipe, role: str, attempt: int, options: Options) -> Key:
    digest = hashlib.sha256(row.uid.encode()).hexdigest()[:10]
    return Key("", JOB_KIND, namespace_of(row, recipe, options), f"nm-{role[0]}-{digest}-{attempt}")


def namespace_of(row: NoticeRow, recipe: Recipe, options: Options) -> str:
    if recipe.namespace == OF_THE_NOTICE:
        return row.key.namespace
    return recipe.namespace or options.namespace


def is_trusted(job: JobRow, namespace: str, options: Options) -> bool:
    """Whether a Job is in a namespace where Jobs of this maintenance may run.

    In other namespaces a tenant may have created it with our labels.
    """
    operators = options.operators
    places = {recipe.namespace for recipe in (*operators.runner.recipes, *operators.validator.recipes)}
    trusted = {place or options.namespace for place in places - {OF_THE_NOTICE}} | {options.namespace}
    return job.key.namespace in trusted or (OF_THE_NOTICE in places and job.key.namespace == namespace)


def jobs_of_notice(view: View, row: NoticeRow, options: Options) -> list[JobRow]:
    """Return the Jobs of a maintenance, both of the runner and of the validator."""
    found = view.rows(JOBS_OF_NOTICE, row.uid, JobRow)
    return [job for job in found if is_trusted(job, row.key.namespace, options)]


def job_body(
    row: NoticeRow, node: NodeRow, recipe: Recipe, role: str, attempt: int, options: Options, *, address: str
) -> dict[str, Any]:
    """Return the Job of one attempt: the administrator's template, completed where it leaves something out.

    `address`: the node's address; empty if it must not be used.
    """
    key = job_key(row, recipe, role, attempt, options)
    environment = environment_of(row, node, attempt, address)
    template = copy.deepcopy(_ansible(recipe, environment) if recipe.type == ANSIBLE else recipe.template)
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels = {NOTICE_UID: row.uid, ROLE: role, RECIPE: recipe.name, ATTEMPT: str(attempt)}
    notice = {NOTICE: row.place}
    spec.setdefault("backoffLimit", 0)
    spec.setdefault("ttlSecondsAfterFinished", DAY_SECONDS)
    spec.setdefault("activeDeadlineSeconds", max(1, int(recipe.timeout.total_seconds())))
    pod = spec.setdefault("template", {})
    pod["metadata"] = _marked(pod.get("metadata") or {}, labels, notice)
    pod["spec"] = _pod(pod.get("spec") or {}, row, node, recipe, environment, same=key.namespace == row.key.namespace)
    marked = _marked(meta, labels, notice)
    placed = {**marked, "name": key.name, "namespace": key.namespace}
    if key.namespace == row.key.namespace:
        placed["ownerReferences"] = [_owner(row)]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": placed, "spec": spec}


def _marked(meta: dict[str, Any], labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    return {
        **meta,
        "labels": {**(meta.get("labels") or {}), **labels},
        "annotations": {**(meta.get("annotations") or {}), **annotations},
    }


def _owner(row: NoticeRow) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": row.key.name,
        "uid": row.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _pod(
    spec: dict[str, Any], row: NoticeRow, node: NodeRow, recipe: Recipe, environment: dict[str, str], *, same: bool
) -> dict[str, Any]:
    spec.setdefault("restartPolicy", "Never")
    placement = OFF_NODE if recipe.type == ANSIBLE else recipe.placement
    if placement == ON_NODE:
        spec["nodeName"] = node.key.name
        spec["tolerations"] = [*(spec.get("tolerations") or []), {"operator": "Exists"}]
    elif placement == OFF_NODE:
        _keep_off(spec, node.key.name)
    # The prefix is required: a person who may edit the ConfigMap must not be able to set PATH or LD_PRELOAD in a
    # privileged container.
    reference = {"name": row.configmap, "optional": True}
    metadata = [{"prefix": "META_", "configMapRef": reference}] if row.configmap and same else []
    for container in (*(spec.get("containers") or []), *(spec.get("initContainers") or [])):
        known = {each.get("name") for each in container.get("env") or []}
        more = [{"name": name, "value": _literal(value)} for name, value in environment.items() if name not in known]
        container["env"] = [*more, *(container.get("env") or [])]
        if metadata:
            container["envFrom"] = [*(container.get("envFrom") or []), *metadata]
    return spec


def environment_of(row: NoticeRow, node: NodeRow, attempt: int, address: str) -> dict[str, str]:
    """Return the environment variables that every container of a recipe gets."""
    expires = row.status.sla_expires
    return {
        "NODE_NAME": node.key.name,
        "NODE_ADDRESS": address,
        "NM_NAME": row.key.name,
        "NM_NAMESPACE": row.key.namespace,
        "NM_UID": row.uid,
        "MAINTENANCE_ID": row.maintenance,
        "MAINTENANCE_TYPE": row.type,
        "MAINTENANCE_OWNER": row.owner,
        "SLA_EXPIRES": wire_time(expires) if expires else "",
        "ATTEMPT": str(attempt),
    }


def _literal(text: str) -> str:
    """Return a value for the environment in which the kubelet expands no `$(VAR)`."""
    return text.replace("$", "$$")


def _keep_off(spec: dict[str, Any], node: str) -> None:
    """Require in every node selector term that the pod runs on another node. The terms are alternatives."""
    field = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    required = spec
    for name in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        # The key may be in the template with the value null.
        required[name] = required.get(name) or {}
        required = required[name]
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or []), field]} for term in terms
    ]


def _ansible(recipe: Recipe, environment: dict[str, str]) -> dict[str, Any]:
    """Return the Job template of a playbook, which runs on another node and reaches this one by SSH."""
    book, key = recipe.playbook, recipe.ssh_key_secret
    assert book is not None
    assert key is not None
    # Ansible takes the value of an extra variable for a template and runs what is in it. So the text of objects is in the
    # environment only. Ansible marks what the env lookup returns as data, and never looks for templates in it.
    looked_up = {name.lower(): _LOOKUP.format(name) for name in environment}
    variables = {**recipe.extra_vars, **looked_up}
    command = ["ansible-playbook", "-i", "$(NODE_ADDRESS),", *(["-u", recipe.user] if recipe.user else [])]
    hosts = recipe.known_hosts
    if hosts is not None:
        # The host key is that of the node's name, which its kubelet cannot change, whatever its address is.
        file = f"/known_hosts/{hosts.key}"
        options = (f"UserKnownHostsFile={file}", "StrictHostKeyChecking=yes", "HostKeyAlias=$(NODE_NAME)")
        command += ["--ssh-common-args", " ".join(f"-o {option}" for option in options)]
    command += ["--private-key", f"/ssh/{key.key}", "-e", "$(EXTRA_VARS)", f"/playbook/{book.key}"]
    container = {
        "name": "ansible",
        "image": recipe.image,
        "command": command,
        "env": [{"name": "EXTRA_VARS", "value": _literal(go_json(variables).decode())}],
        "volumeMounts": [
            {"name": "playbook", "mountPath": "/playbook", "readOnly": True},
            {"name": "ssh", "mountPath": "/ssh", "readOnly": True},
            *([{"name": "known-hosts", "mountPath": "/known_hosts", "readOnly": True}] if hosts is not None else []),
        ],
    }
    volumes = [
        {"name": "playbook", "configMap": {"name": book.config_map}},
        {"name": "ssh", "secret": {"secretName": key.name, "defaultMode": 0o400}},
        *([{"name": "known-hosts", "configMap": {"name": hosts.config_map}}] if hosts is not None else []),
    ]
    return {"spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}}}
