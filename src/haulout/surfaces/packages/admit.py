"""The rules of the admission webhooks of Skyhook and DeploymentPolicy, with the original's messages."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.admission import ALLOWED, AdmissionRequest, Rule, Unreadable, Verdict, Webhook, denial, unreadable
from haulout.core.surface import Registration
from haulout.surfaces.packages.declare import MUTATE_POLICY, MUTATE_SKYHOOK, VALIDATE_POLICY, VALIDATE_SKYHOOK
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.conditions import TRUNCATED
from haulout.surfaces.packages.specs.image_rules import images_problem
from haulout.surfaces.packages.specs.name_clashes import clash_warnings
from haulout.surfaces.packages.specs.policy_problems import policy_problem
from haulout.surfaces.packages.specs.skyhook_problems import MOST_PACKAGES, name_problem, spec_problem, warnings
from haulout.surfaces.packages.specs.versions import is_lower
from haulout.surfaces.packages.wire import (
    KIND,
    SURFACE,
    Package,
    SkyhookRow,
    Spec,
    normalised,
    skyhook_key,
    without_tag,
)
from haulout.surfaces.packages.wire_policy import (
    STRATEGIES,
    Parameters,
    PolicyRow,
    PolicySpec,
    StrategySpec,
    parameters_with_defaults,
    policy_key,
    size_problem,
)

Patch = dict[str, Any]


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    deletion_timestamp: str | None = None


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(Struct, frozen=True):
    conditions: msgspec.Raw = msgspec.Raw(b"[]")


# The key of an entry is `name|version`; no other text of a status has that form.
_ENTRY = re.compile(rb'"([^"|\\]{1,253})\|')
MOST_CONDITIONS = 1000


class ReviewedSkyhook(Struct, frozen=True):
    """The parts of a Skyhook that the webhook rules read.

    `status`: the undecoded JSON, because it may hold the entries of thousands of nodes.
    """

    metadata: _Meta = _Meta()
    spec: Spec = Spec()
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def installed(self) -> frozenset[str] | None:
        """Return the packages that have an entry on any node; None if the status cannot list all of them."""
        try:
            conditions = msgspec.json.decode(self.status, type=_Status).conditions
            if bytes(conditions).count(b"{") > MOST_CONDITIONS:
                return None
            found = msgspec.json.decode(conditions, type=tuple[_Condition, ...])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if any((each.type, each.status) == (TRUNCATED, "True") for each in found):
            return None
        return frozenset(name.decode(errors="replace") for name in _ENTRY.findall(self.status))


class ReviewedPolicy(Struct, frozen=True):
    """The parts of a DeploymentPolicy that the webhook rules read."""

    metadata: _Meta = _Meta()
    spec: PolicySpec = PolicySpec()


Reviewed = TypeVar("Reviewed", ReviewedSkyhook, ReviewedPolicy)


def _policy_of(row: Row) -> Iterable[Hashable]:
    return (row.spec.deployment_policy,) if isinstance(row, SkyhookRow) and row.spec.deployment_policy else ()


SKYHOOKS_OF_POLICY = Index("skyhooks-of-policy", KIND, _policy_of)


def webhooks() -> tuple[Webhook, ...]:
    return (
        _webhook(MUTATE_SKYHOOK, fill_in_skyhook, ReviewedSkyhook),
        _webhook(MUTATE_POLICY, fill_in_policy, ReviewedPolicy),
        _webhook(VALIDATE_SKYHOOK, admit_skyhook, ReviewedSkyhook),
        _webhook(VALIDATE_POLICY, admit_policy, ReviewedPolicy),
    )


def _webhook(declared: Registration, rule: Rule, reads: type[Struct]) -> Webhook:
    return Webhook(
        name=declared.name,
        path=declared.path,
        rule=rule,
        reads=reads,
        registration=declared.configuration,
        mutates=declared.mutating,
        rules=declared.rules,
    )


def fill_in_skyhook(request: AdmissionRequest, view: View) -> Verdict:
    """Set each package's name to its key and cut the tag off its image.

    A Skyhook that cannot be read, or has too many packages, passes here; the validating webhook refuses it.
    """
    skyhook = request.object
    if not isinstance(skyhook, ReviewedSkyhook) or len(skyhook.spec.packages) > MOST_PACKAGES:
        return ALLOWED
    patch = tuple(step for key, package in skyhook.spec.packages.items() for step in _normalising(key, package))
    return Verdict(allowed=True, patch=patch, warnings=tuple(warnings(skyhook.spec)))


def _normalising(key: str, package: Package) -> Iterator[Patch]:
    if not package.name:
        yield {"op": "add", "path": _pointer("spec", "packages", key, "name"), "value": key}
    image = without_tag(package.image)
    if image != package.image:
        yield {"op": "add", "path": _pointer("spec", "packages", key, "image"), "value": image}


def fill_in_policy(request: AdmissionRequest, view: View) -> Verdict:
    """Fill in the default parameters of the policy's strategies."""
    policy = request.object
    if not isinstance(policy, ReviewedPolicy) or size_problem(policy.spec):
        return ALLOWED
    patch = list(_completing(("spec", "default", "strategy"), policy.spec.default.strategy))
    for number, compartment in enumerate(policy.spec.compartments):
        patch += _completing(("spec", "compartments", str(number), "strategy"), compartment.strategy)
    return Verdict(allowed=True, patch=tuple(patch))


def _completing(place: tuple[str, ...], strategy: StrategySpec | None) -> Iterator[Patch]:
    if strategy is None:
        return
    complete = parameters_with_defaults(strategy)
    for kind in STRATEGIES:
        parameters: Parameters | None = getattr(strategy, kind)
        if parameters is None:
            continue
        wanted = msgspec.to_builtins(getattr(complete, kind))
        for field, value in msgspec.to_builtins(parameters).items():
            if wanted[field] != value:
                yield {"op": "add", "path": _pointer(*place, kind, field), "value": wanted[field]}


def admit_skyhook(request: AdmissionRequest, view: View) -> Verdict:
    new, old = _read(request.object, ReviewedSkyhook), _read(request.old_object, ReviewedSkyhook)
    if isinstance(new, Verdict):
        return new
    is_update = isinstance(old, ReviewedSkyhook)
    # A spec that was stored before there was a webhook must not keep people from pausing or deleting the Skyhook.
    if new.metadata.deletion_timestamp or (isinstance(old, ReviewedSkyhook) and old.spec == new.spec):
        return ALLOWED
    problem = "" if is_update else name_problem(new.metadata.name or request.name)
    problem = problem or spec_problem(new.spec) or _images_problem(new.spec, view)
    if not problem and isinstance(old, ReviewedSkyhook):
        problem = _uninstall_problem(old, new)
    if problem:
        return denial(problem)
    row = SkyhookRow(key=skyhook_key(new.metadata.name or request.name), spec=normalised(new.spec))
    return _policy_verdict(new.spec.deployment_policy, view) or Verdict(
        allowed=True, warnings=(*warnings(new.spec), *clash_warnings(row, view))
    )


def _images_problem(spec: Spec, view: View) -> str:
    options = _options(view)
    return images_problem(normalised(spec).packages.values(), options) if options is not None else ""


def _options(view: View) -> Options | None:
    setting = view.config(SURFACE)
    return setting.value if setting is not None and isinstance(setting.value, Options) else None


def _policy_verdict(name: str, view: View) -> Verdict | None:
    if not name or view.get(policy_key(name), PolicyRow) is not None:
        return None
    return denial(f'deploymentPolicy "{name}" not found', policy_key(name))


def _uninstall_problem(old: ReviewedSkyhook, new: ReviewedSkyhook) -> str:
    """Return why a package must be uninstalled before it is removed or downgraded; empty if no package must.

    This concerns packages with `uninstall.enabled` that some node still has.
    """
    named = [
        (key, each) for key, each in sorted(old.spec.packages.items()) if each.uninstall and each.uninstall.enabled
    ]
    installed = old.installed() if named else None
    for key, package in named:
        if installed is not None and key not in installed:
            continue
        wanted = new.spec.packages.get(key)
        if wanted is None:
            return f'package "{key}": set uninstall.apply and wait until it is uninstalled before it is removed'
        if is_lower(wanted.version, package.version):
            return (
                f'package "{key}": set uninstall.apply and wait until it is uninstalled before its version is lowered'
            )
    return ""


def admit_policy(request: AdmissionRequest, view: View) -> Verdict:
    if request.operation == "DELETE":
        return _delete(request.name, view)
    new, old = _read(request.object, ReviewedPolicy), _read(request.old_object, ReviewedPolicy)
    if isinstance(new, Verdict):
        return new
    if new.metadata.deletion_timestamp or (isinstance(old, ReviewedPolicy) and old.spec == new.spec):
        return ALLOWED
    problem = policy_problem(new.spec)
    if problem:
        return denial(problem)
    return Verdict(allowed=True, warnings=tuple(_gate_warnings(new.spec, view)))


def _gate_warnings(spec: PolicySpec, view: View) -> Iterator[str]:
    """Warn of a Prometheus query that the settings forbid, because no wave would pass its gate."""
    options = _options(view)
    asks = spec.gate.prometheus if spec.gate is not None else None
    if asks is None or options is None:
        return
    if asks.url.startswith("http://") and not options.allow_http_prometheus:
        yield "gate: prometheus: url has no TLS, and the setting allowHttpPrometheus does not allow that"


def _delete(name: str, view: View) -> Verdict:
    users = view.rows(SKYHOOKS_OF_POLICY, name, SkyhookRow)
    if not users:
        return ALLOWED
    names = " ".join(user.name for user in users)
    message = f'cannot delete DeploymentPolicy "{name}": still referenced by {len(users)} Skyhook(s): [{names}]'
    return denial(message, *(user.key for user in users))


def _read(obj: Struct | Unreadable | None, kind: type[Reviewed]) -> Reviewed | Verdict:
    if isinstance(obj, kind):
        return obj
    if isinstance(obj, Unreadable):
        return unreadable(f"the object cannot be read: {obj.why}")
    return unreadable("there is no content to decode")


def _pointer(*parts: str) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)
