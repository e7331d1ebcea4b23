"""The settings of the packages surface: its block in haulout.yaml, and the environment of its original."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict

from haulout.base.image import is_prefix
from haulout.core.setting import OriginalLease, Setting, describe, network, not_empty, not_negative

AGENT_IMAGE, PAUSE_IMAGE = "ghcr.io/nvidia/skyhook/agent:latest", "registry.k8s.io/pause:3.10"
# The taints that the original used by default before and after it was renamed.
USUAL_TAINTS = ("skyhook.nvidia.com=runtime-required:NoSchedule", "nodewright.nvidia.com=runtime-required:NoSchedule")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TAINT = re.compile(r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>[^:]+)")
# What runs the stages of packages: Jobs for NodeWrights and pods for Skyhooks, or one of them for both.
BY_KIND, JOBS, PODS = "byKind", "jobs", "pods"
_AMOUNT = re.compile(r"(?:[0-9]+%?)?")


def taint_parts(text: str) -> tuple[str, str, str]:
    """Return key, value and effect of a taint in kubectl's syntax. Raises ValueError."""
    found = _TAINT.fullmatch(text)
    if found is None or found["effect"] not in _EFFECTS:
        raise ValueError(f"{text!r} is no taint")
    return found["key"], found["value"] or "", found["effect"]


def _a_minute_or_more(value: timedelta) -> None:
    if value < timedelta(minutes=1):
        raise ValueError("too short")


def _an_executor(text: str) -> None:
    if text not in (BY_KIND, JOBS, PODS):
        raise ValueError(f"{text!r} is no executor")


def _absolute(text: str) -> None:
    if not text.startswith("/"):
        raise ValueError(f"{text!r} does not start with /")


def _tagged(text: str) -> None:
    if text and ":" not in text:
        raise ValueError(f"{text!r} has no tag")


def _an_image_prefix(text: str) -> None:
    if not is_prefix(text):
        raise ValueError(f"{text!r} is no registry or repository")


def _an_amount(text: str) -> None:
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is neither a count nor a percentage")


def _image(text: str) -> Setting:
    return Setting(help=text, check=_tagged, right="an image with a tag; empty for the usual one")


class PackagesSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.packages` of `haulout.yaml`; docs/packages.md describes the settings."""

    namespace: Annotated[
        str,
        Setting(
            help="The namespace in which packages run.", check=not_empty, right="the name of a namespace", at_start=True
        ),
    ] = "skyhook"
    default_interval: Annotated[
        timedelta,
        Setting(
            help="Checked and without effect: nothing is polled.",
            check=_a_minute_or_more,
            right="a duration such as 10m",
        ),
    ] = timedelta(minutes=10)
    image_pull_secret: Annotated[str, Setting(help="The Secret by which images are pulled.")] = ""
    copy_dir_root: Annotated[
        str,
        Setting(
            help="The directory on hosts into which packages are copied.", check=_absolute, right="a path on the hosts"
        ),
    ] = "/var/lib/skyhook"
    reapply_on_reboot: Annotated[bool, Setting(help="Apply packages again after a reboot of their node.")] = False
    runtime_required_taint: Annotated[
        str,
        Setting(
            help="The taint that is taken off a node when its packages are complete.",
            check=taint_parts,
            right="a taint such as key=value:NoSchedule",
        ),
    ] = USUAL_TAINTS[0]
    pause_image: Annotated[str, _image("The image of the container that keeps a package's pod alive.")] = ""
    agent_image: Annotated[str, _image("The image of the agent that runs packages on hosts.")] = ""
    agent_log_root: Annotated[
        str,
        Setting(
            help="The directory on hosts in which packages leave their logs.",
            check=_absolute,
            right="a path on the hosts",
        ),
    ] = "/var/log/skyhook"
    budget_counts_erroring: Annotated[bool, Setting(help="Count nodes whose packages fail against budgets.")] = True
    max_unavailable_nodes: Annotated[
        str,
        Setting(
            help="How many nodes all Skyhooks together may make unavailable.",
            check=_an_amount,
            right="such as 3 or 10%; empty for any number",
        ),
    ] = ""
    stage_timeout: Annotated[
        timedelta,
        Setting(
            help="After this time a stage counts as failed.",
            check=not_negative,
            right="a duration; 0s for as long as it takes",
        ),
    ] = timedelta()
    stage_retries: Annotated[
        int,
        Setting(
            help="How often a failed stage is tried again before its package counts as failed.",
            check=not_negative,
            right="0 or more",
        ),
    ] = 0
    executor: Annotated[
        str,
        Setting(
            help="What runs the stages of packages. byKind: Jobs for NodeWrights, pods for Skyhooks.",
            check=_an_executor,
            right=f"{BY_KIND}, {JOBS} or {PODS}",
        ),
    ] = BY_KIND
    job_backoff_limit: Annotated[
        int,
        Setting(
            help="How often a failed stage of a NodeWright, or a Job, is tried again.",
            check=not_negative,
            right="0 or more",
        ),
    ] = 3
    job_stage_timeout: Annotated[
        timedelta,
        Setting(
            help="How long one attempt at a stage of a NodeWright may take, unless the package says it.",
            check=not_negative,
            right="a duration; 0s for as long as it takes",
        ),
    ] = timedelta(hours=1)
    job_ttl_succeeded: Annotated[
        timedelta,
        Setting(
            help="How long a Job stays after it has succeeded.", check=_a_minute_or_more, right="a duration such as 1h"
        ),
    ] = timedelta(hours=1)
    job_ttl_failed: Annotated[
        timedelta,
        Setting(
            help="How long a Job stays after it has failed. Its stage is tried again then.",
            check=_a_minute_or_more,
            right="a duration such as 24h",
        ),
    ] = timedelta(hours=24)
    pre_pull: Annotated[bool, Setting(help="Pull the images of packages before a node is cordoned.")] = False
    pre_pull_timeout: Annotated[
        timedelta,
        Setting(help="How long a node waits for its images.", check=not_negative, right="a duration such as 10m"),
    ] = timedelta(minutes=10)
    # If it is empty, every network is allowed except loopback, link-local and reserved ones.
    allowed_prometheus_ranges: Annotated[
        tuple[str, ...],
        Setting(
            help="Networks in which the Prometheus servers of gates may be, such as 10.0.0.0/8,192.0.2.0/24.",
            check=network,
            right="such as 10.0.0.0/8",
        ),
    ] = ()
    allow_http_prometheus: Annotated[bool, Setting(help="Ask Prometheus servers of gates without TLS, too.")] = False
    unstartable_fails: Annotated[
        bool,
        Setting(
            help="Count a package as failing when its container cannot start, for instance because its image cannot be pulled."
        ),
    ] = True
    keep_failure_logs: Annotated[
        bool,
        Setting(help="Copy the end of a failing package's log to an event and an annotation of its Node."),
    ] = False
    allowed_image_prefixes: Annotated[
        tuple[str, ...],
        Setting(
            help="Registries and repositories below which the images of packages must be; empty for any.",
            check=_an_image_prefix,
            right="such as registry.example.com/team, without a slash at the end, a tag or a wildcard",
        ),
    ] = ()
    require_container_sha: Annotated[
        bool, Setting(help="Refuse packages whose images, also that of an agentImageOverride, have no digest.")
    ] = msgspec.field(default=False, name="requireContainerSHA")
    forbid_agent_image_override: Annotated[bool, Setting(help="Refuse packages with an agentImageOverride.")] = False
    publish_legacy_metrics: Annotated[
        bool, Setting(help="Publish the metrics under the names of Skyhooks, too, not only under those of NodeWrights.")
    ] = True
    lease: OriginalLease | None = None


# What the original says about a setting that has to be set, and about one that its check refuses, in its own order.
_UNSET = ("namespace", "copy_dir_root", "runtime_required_taint")
_REFUSED = {
    "default_interval": "max interval must be at least 1 minute",
    "copy_dir_root": "copy dir root must start with /",
    "runtime_required_taint": "runtime required taint is invalid: invalid taint spec: {}",
    "agent_image": "agent image must contain a tag",
    "pause_image": "pause image must contain a tag",
    "max_unavailable_nodes": "max unavailable nodes must be a count or a percentage",
    "stage_timeout": "stage timeout must not be negative",
    "executor": "executor must be byKind, jobs or pods",
    "job_ttl_succeeded": "job ttl succeeded must be at least 1 minute",
    "job_ttl_failed": "job ttl failed must be at least 1 minute",
    "job_stage_timeout": "job stage timeout must be greater than or equal to 0",
    "job_backoff_limit": "job backoff limit must be greater than or equal to 0",
    "pre_pull_timeout": "pre pull timeout must not be negative",
    "allowed_prometheus_ranges": "allowed prometheus ranges: {} is no network",
    "allowed_image_prefixes": "allowed image prefixes: {} is no registry or repository",
}


def problems(settings: PackagesSettings) -> Iterator[str]:
    """Yield what is wrong with the environment variables, in the words of the original."""
    values, checks = asdict(settings), {each.path[0]: each.setting.check for each in describe(PackagesSettings)}
    yield from (f"{name.replace('_', ' ')} must be set" for name in _UNSET if not values[name])
    for name, text in _REFUSED.items():
        value, check = values[name], checks[name]
        if value == "":
            yield from (f"{kind} image must be set" for kind in ("agent", "pause") if name == f"{kind}_image")
        elif check is not None:
            entries = value if isinstance(value, tuple) else (value,)
            yield from (_refused(name, text, entry) for entry in entries if not _passes(check, entry))


def _refused(name: str, text: str, value: Any) -> str:
    if name == "runtime_required_taint" and value.endswith("-"):
        return "runtime required taint must not be a deletion"
    return text.format(value)


def _passes(check: Callable[[Any], object], value: Any) -> bool:
    try:
        check(value)
    except ValueError:
        return False
    return True
