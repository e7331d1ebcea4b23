"""The settings of the process that every surface reads: whether it is served alone, and the rules for drains."""

from __future__ import annotations

from haulout.base import selector
from haulout.core.declaration import Context
from haulout.core.drain.options import ACTS, PodRules, Rule
from haulout.settings.settings import Settings


def context_of(settings: Settings) -> Context:
    """Return the settings that the decisions of every surface read beside its own."""
    return Context(alone=settings.alone, rules=pod_rules(settings))


def pod_rules(settings: Settings) -> PodRules:
    configured = settings.pod_rules
    rules = (
        Rule(
            act=ACTS[rule.action],
            namespaces=frozenset(rule.namespaces),
            selector=selector.parse(rule.selector) if rule.selector else None,
            controller_kinds=frozenset(rule.controller_kinds),
            restart_policies=frozenset(rule.restart_policies),
            order=rule.order,
        )
        for rule in configured.rules
    )
    return PodRules(tuple(rules), configured.annotation, configured.cluster_api_label)
