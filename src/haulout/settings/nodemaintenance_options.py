"""From the settings to what the nodemaintenance surface is told."""

from __future__ import annotations

from datetime import timedelta

from haulout.base import selector
from haulout.core.drain.options import ACTS, PodRules, Rule
from haulout.settings.settings import NodeMaintenance, Settings
from haulout.surfaces.nodemaintenance.options import DrainDefaults, Options

# What the pods of the original's Deployment carry, and what ours do.
OWN_PODS_ALONE, OWN_PODS = "node-maintenance-operator", "app.kubernetes.io/name=haulout"


def options_of(settings: Settings) -> Options:
    said = settings.nodemaintenance or NodeMaintenance()
    return Options(
        lease_namespace=said.lease_namespace,
        lease_for=timedelta(seconds=said.lease_duration),
        most_at_once=said.max_concurrent_maintenances,
        restore=said.restore_node_state,
        quorum_on_kubernetes=said.quorum_on_kubernetes,
        node_conditions=said.node_conditions,
        by_priority=said.priority_order,
        by_request=said.eviction_backend == "evictionrequest",
        skip_unreachable_for=timedelta(seconds=said.skip_unreachable_after),
        drain=DrainDefaults(**dict(said.drain)),  # type: ignore[arg-type]
        rules=pod_rules(settings),
        own_pods=selector.parse(OWN_PODS_ALONE if settings.alone else OWN_PODS),
        alone=settings.alone,
    )


def pod_rules(settings: Settings) -> PodRules:
    said = settings.pod_rules
    rules = (
        Rule(
            act=ACTS[rule.action],
            namespaces=frozenset(rule.namespaces),
            selector=selector.parse(rule.selector) if rule.selector else None,
            controller_kinds=frozenset(rule.controller_kinds),
            restart_policies=frozenset(rule.restart_policies),
            order=rule.order,
        )
        for rule in said.rules
    )
    return PodRules(tuple(rules), said.annotation, said.cluster_api_label)
