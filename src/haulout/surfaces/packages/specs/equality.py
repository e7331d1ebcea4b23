"""Whether two specs want the same, however their defaults, durations and quantities are written.

The original writes a spec from its Go types: an empty object becomes `{}`, `1m` becomes `1m0s`, and `1000m` becomes `1`. A
copy that it has made differs from its source in these places alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.base import duration
from haulout.base.quantity import QuantityError, amount
from haulout.surfaces.packages.wire import (
    Budget,
    DrainConfig,
    Package,
    PolicyOptions,
    Quantity,
    Resources,
    Spec,
    Uninstall,
    normalize_spec,
)

replace = msgspec.structs.replace


def are_equal(one: Spec, other: Spec) -> bool:
    return one == other or _plain(one) == _plain(other)


def _plain(spec: Spec) -> Spec:
    """Return the spec with one form for each meaning, and without `pause`, which has no effect."""
    spec = normalize_spec(spec)
    has_options = spec.deployment_policy_options not in (None, PolicyOptions())
    return replace(
        spec,
        pause=False,
        packages={name: _plain_package(package) for name, package in spec.packages.items()},
        interruption_budget=spec.interruption_budget if spec.interruption_budget != Budget() else None,
        deployment_policy_options=spec.deployment_policy_options if has_options else None,
        drain_config=_plain_drain(spec.drain_config or DrainConfig()),
    )


def _plain_package(package: Package) -> Package:
    return replace(
        package,
        env=tuple(_without_empty(each) for each in package.env),
        resources=_plain_resources(package.resources or Resources()),
        graceful_shutdown=_plain_span(package.graceful_shutdown),
        stage_timeout=_plain_span(package.stage_timeout),
        uninstall=package.uninstall or Uninstall(),
    )


def _plain_drain(config: DrainConfig) -> DrainConfig:
    return replace(
        config,
        delete_empty_dir_data=config.delete_empty_dir_data is not False,
        force=config.force is not False,
        ignore_daemon_sets=config.ignore_daemon_sets is not False,
        disable_eviction=bool(config.disable_eviction),
        # A drain without a time limit, and pods with their own time to end.
        timeout=_plain_span(config.timeout or "0s"),
        grace_period=_plain_span(config.grace_period or "0s"),
    )


def _plain_span(text: str | None) -> str | None:
    try:
        return f"{duration.parse_nanoseconds(text)}ns" if text is not None else None
    except duration.DurationError:
        return text


def _plain_resources(resources: Resources) -> Resources:
    return Resources(
        *(
            _plain_amount(value)
            for value in (
                resources.cpu_request,
                resources.cpu_limit,
                resources.memory_request,
                resources.memory_limit,
            )
        )
    )


def _plain_amount(value: Quantity | None) -> Quantity | None:
    if value is None:
        return None
    try:
        # Zero counts as unset.
        return str(amount(value)) if amount(value) else None
    except QuantityError:
        return value


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty(each) for name, each in value.items() if each not in (None, "", {})}
    return value
