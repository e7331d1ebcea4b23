"""The settings of the packages surface in the form that its decisions read."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.cluster.rows import Taint
from haulout.core.declaration import Context
from haulout.core.drain.options import PodRules
from haulout.surfaces.packages.settings import AGENT_IMAGE, PAUSE_IMAGE, PackagesSettings, taint_parts

RUNTIME_REQUIRED = Taint("skyhook.nvidia.com", "NoSchedule", "runtime-required")
# The version of the original whose behaviour this surface reproduces. It is written to Skyhooks and Nodes.
STAMP_VERSION = "v0.15.0"


class ImageRules(msgspec.Struct, frozen=True):
    """Which images packages may have.

    `prefixes`: registries and repositories below which they must be; empty: any.
    `needs_digest`: each must be pinned by a digest.
    `forbids_override`: no package may bring an agent of its own.
    """

    prefixes: tuple[str, ...] = ()
    needs_digest: bool = False
    forbids_override: bool = False


class Options(msgspec.Struct, frozen=True):
    """The settings of the packages surface, and how it is served.

    `alone`: it is the original's drop-in, so no other surface takes turns or shares budgets with it.
    `counts_erroring`: a node that fails while it is cordoned takes a place under its budget.
    `most_unavailable`: a count or percentage of nodes that all Skyhooks together may keep cordoned; empty: any number.
    `stage_for`: how long a stage may take, unless its package says otherwise; None: no limit.
    `pulls_within`: how long a node waits for images to be pulled before it is cordoned; None: they are not pulled
    ahead.
    `prometheus_ranges`: the networks that Prometheus servers of gates may be in; empty: all but loopback, link-local
    and reserved ones.
    `allows_http`: Prometheus servers may be asked without TLS.
    `keeps_logs`: the end of a failing package's log is copied to its Node.
    `images`: which images packages may have.
    """

    namespace: str = "skyhook"
    image_pull_secret: str = ""
    copy_dir_root: str = "/var/lib/skyhook"
    agent_log_root: str = "/var/log/skyhook"
    agent_image: str = AGENT_IMAGE
    pause_image: str = PAUSE_IMAGE
    runtime_required: Taint = RUNTIME_REQUIRED
    reapply_on_reboot: bool = False
    counts_erroring: bool = True
    most_unavailable: str = ""
    stage_for: timedelta | None = None
    stage_retries: int = 0
    pulls_within: timedelta | None = None
    prometheus_ranges: tuple[str, ...] = ()
    allows_http: bool = False
    keeps_logs: bool = False
    images: ImageRules = ImageRules()
    alone: bool = True
    rules: PodRules = PodRules()


def served(settings: PackagesSettings, context: Context) -> Options:
    """Return the options from the settings and the context in which the surface is served."""
    parts = taint_parts(settings.runtime_required_taint)
    return Options(
        namespace=settings.namespace,
        image_pull_secret=settings.image_pull_secret,
        copy_dir_root=settings.copy_dir_root,
        agent_log_root=settings.agent_log_root,
        agent_image=settings.agent_image or AGENT_IMAGE,
        pause_image=settings.pause_image or PAUSE_IMAGE,
        runtime_required=Taint(parts[0], parts[2], parts[1]) if parts is not None else RUNTIME_REQUIRED,
        reapply_on_reboot=settings.reapply_on_reboot,
        counts_erroring=settings.budget_counts_erroring,
        most_unavailable=settings.max_unavailable_nodes,
        stage_for=settings.stage_timeout or None,
        stage_retries=settings.stage_retries,
        pulls_within=settings.pre_pull_timeout if settings.pre_pull else None,
        prometheus_ranges=settings.allowed_prometheus_ranges,
        allows_http=settings.allow_http_prometheus,
        keeps_logs=settings.keep_failure_logs,
        images=ImageRules(
            settings.allowed_image_prefixes, settings.require_container_sha, settings.forbid_agent_image_override
        ),
        alone=context.alone,
        rules=context.rules,
    )
