"""From the settings of the Cluster API bridge to what its decisions read."""

from __future__ import annotations

from haulout.base.bounds import span
from haulout.settings.settings import ClusterApi, Settings
from haulout.surfaces.clusterapi.options import Options


def options_of(whole: Settings) -> Options:
    settings = whole.clusterapi or ClusterApi()
    within = settings.deletion_approval_timeout
    return Options(
        metal3=settings.enable_metal3_maintenance,
        allow_exec=settings.allow_exec_kubeconfigs,
        guard_remediation=settings.guard_remediation,
        approval_hygiene=settings.approval_hygiene,
        approve_within_for=span(within) if within > 0 else None,
        prefer_limited=settings.prefer_limited_kubeconfigs,
        reboot_mode=settings.reboot_mode_annotation,
        workload_requests=settings.workload_requests,
        server_ranges=settings.allowed_server_ranges,
        allow_http=settings.allow_http_kubeconfigs,
        # An original alone accepts hosts that name no consumer, as its users know it.
        owned_hosts_only=not whole.alone,
    )
