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
from haulout.surfaces.packages.declare import (
    MUTATE_NODEWRIGHT,
    MUTATE_NODEWRIGHT_POLICY,
    MUTATE_POLICY,
    MUTATE_SKYHOOK,
    VALIDATE_NODEWRIGHT,
    VALIDATE_NODEWRIGHT_POLICY,
    VALIDATE_POLICY,
    VALIDATE_SKYHOOK,
)
from haulout.surfaces.packages.entries.stages import is_unwanted
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.conditions import TRUNCATED
from haulout.surfaces.packages.specs.equality import are_equal
from haulout.surfaces.packages.specs.image_rules import images_problem
from haulout.surfaces.packages.specs.name_clashes import clash_warnings
from haulout.surfaces.packages.specs.policy_problems import policy_problem
from haulout.surfaces.packages.specs.skyhook_problems import (
    MOST_PACKAGES,
    name_problem,
    spec_problem,
    tag_problem,
    warnings,
)
from haulout.surfaces.packages.specs.versions import is_lower
from haulout.surfaces.packages.units.unit import leader_and_other, superseded_text, unit_of
from haulout.surfaces.packages.wire import (
    SURFACE,
    Package,
    SkyhookRow,
    Spec,
    normalize_spec,
    readable_groups,
    skyhook_key,
    without_tag,
)
from haulout.surfaces.packages.wire_policy import (
    POLICY_KINDS,
    STRATEGIES,
    Parameters,
    PolicySpec,
    StrategySpec,
    parameters_with_defaults,
    policy_key,
    policy_of,
    size_problem,
)

Patch = dict[str, Any]


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    annotations: dict[str, str] = {}
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


OBJECTS_OF_POLICY = {group: Index(f"{group.plural}-of-policy", group.kind, _policy_of) for group in GROUPS}


def webhooks() -> tuple[Webhook, ...]:
    return (
        _webhook(MUTATE_SKYHOOK, fill_in_skyhook, ReviewedSkyhook),
        _webhook(MUTATE_POLICY, fill_in_policy, ReviewedPolicy),
        _webhook(VALIDATE_SKYHOOK, admit_skyhook, ReviewedSkyhook),
        _webhook(VALIDATE_POLICY, admit_policy, ReviewedPolicy),
        _webhook(MUTATE_NODEWRIGHT, fill_in_nodewright, ReviewedSkyhook),
        _webhook(MUTATE_NODEWRIGHT_POLICY, fill_in_policy, ReviewedPolicy),
        _webhook(VALIDATE_NODEWRIGHT, admit_nodewright, ReviewedSkyhook),
        _webhook(VALIDATE_NODEWRIGHT_POLICY, admit_nodewright_policy, ReviewedPolicy),
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


def fill_in_nodewright(request: AdmissionRequest, view: View) -> Verdict:
    """Set each package's name to its key. An image with a tag is refused by the validating webhook."""
    nodewright = request.object
    if not isinstance(nodewright, ReviewedSkyhook) or len(nodewright.spec.packages) > MOST_PACKAGES:
        return ALLOWED
    named = tuple(
        {"op": "add", "path": _pointer("spec", "packages", key, "name"), "value": key}
        for key, package in nodewright.spec.packages.items()
        if not package.name
    )
    return Verdict(allowed=True, patch=named)


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
    return _admit(request, view, SKYHOOK)


def admit_nodewright(request: AdmissionRequest, view: View) -> Verdict:
    return _admit(request, view, NODEWRIGHT)


def _admit(request: AdmissionRequest, view: View, group: Group) -> Verdict:
    new, old = _read(request.object, ReviewedSkyhook), _read(request.old_object, ReviewedSkyhook)
    if isinstance(new, Verdict):
        return new
    is_update = isinstance(old, ReviewedSkyhook)
    # A spec that was stored before there was a webhook must not keep people from pausing or deleting the Skyhook.
    name = new.metadata.name or request.name
    more = tuple(_superseded(name, new, old, view, group))
    if new.metadata.deletion_timestamp or (isinstance(old, ReviewedSkyhook) and old.spec == new.spec):
        return Verdict(allowed=True, warnings=more) if more else ALLOWED
    problem = "" if is_update else name_problem(name)
    problem = problem or (tag_problem(new.spec) if group is NODEWRIGHT else "")
    problem = problem or spec_problem(new.spec) or _images_problem(new.spec, view)
    if not problem and isinstance(old, ReviewedSkyhook):
        problem = _uninstall_problem(old, new)
        more = (*more, *_cancelled(old.spec, new.spec))
    if problem:
        return denial(f'validating NodeWright "{name}": {problem}' if group is NODEWRIGHT else problem)
    row = SkyhookRow(key=skyhook_key(name, group), spec=normalize_spec(new.spec))
    spec_warnings = warnings(new.spec) if group is SKYHOOK else ()
    return _policy_verdict(row, view) or Verdict(
        allowed=True, warnings=(*spec_warnings, *clash_warnings(row, view), *more)
    )


def _superseded(
    name: str, new: ReviewedSkyhook, old: ReviewedSkyhook | Verdict, view: View, group: Group
) -> Iterator[str]:
    """Warn that the other object of the name leads, so that this spec has no effect, or that it does so no more.

    What counts is which of the two leads after this write: a mirror that is edited leads from then on.
    """
    unit = unit_of(view, name)
    if unit is None:
        return
    if unit.other is None:
        # An object that is only being created is not in the view. A NodeWright leads whatever Skyhook it is created beside.
        leader = unit.stored
        is_beside = group is SKYHOOK and leader.group is NODEWRIGHT and leader.deleting_at is None
    else:
        leader = _leader_after(new, old, (unit.stored, unit.other), group)
        is_beside = leader.group is not group
    if is_beside and not are_equal(new.spec, leader.spec):
        yield superseded_text(leader)
    elif unit.other is not None and not is_beside and unit.stored.group is not group:
        other = unit.stored
        yield f"{leader.group.kind} {name} leads from now on: its spec is in force, and not that of {other.group.kind} {name}"


def _leader_after(
    new: ReviewedSkyhook, old: ReviewedSkyhook | Verdict, pair: tuple[SkyhookRow, SkyhookRow], group: Group
) -> SkyhookRow:
    """Return which of two objects leads once the one of this group is as requested."""
    rows = {row.group: row for row in pair}
    is_changed = isinstance(old, ReviewedSkyhook) and old.spec != new.spec
    rows[group] = msgspec.structs.replace(
        rows[group],
        spec=normalize_spec(new.spec),
        generation=rows[group].generation + is_changed,
        annotations=new.metadata.annotations,
    )
    return leader_and_other(rows[SKYHOOK], rows[NODEWRIGHT])[0]


def _images_problem(spec: Spec, view: View) -> str:
    options = _options(view)
    return images_problem(normalize_spec(spec).packages.values(), options) if options is not None else ""


def _options(view: View) -> Options | None:
    setting = view.config(SURFACE)
    return setting.value if setting is not None and isinstance(setting.value, Options) else None


def _policy_verdict(row: SkyhookRow, view: View) -> Verdict | None:
    name = row.spec.deployment_policy
    if not name or policy_of(view, row) is not None:
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
            return (
                f'package "{key}" has uninstall.enabled=true; set uninstall.apply=true and wait for completion before'
                " removing from spec"
            )
        if is_lower(wanted.version, package.version):
            return f'package "{key}": downgrade not allowed — {_BEFORE_DOWNGRADE[is_unwanted(package)]}'
    return ""


# What to do before the version of a package is lowered, by whether the package is being uninstalled.
_BEFORE_DOWNGRADE = {
    False: "set uninstall.apply=true first, wait for uninstall to complete, then change version",
    True: "uninstall has not yet completed on all nodes. Wait for the uninstall to finish, then change version",
}


def _cancelled(old: Spec, new: Spec) -> Iterator[str]:
    """Warn of packages that are not to be uninstalled any more."""
    for key, package in sorted(new.packages.items()):
        if key in old.packages and is_unwanted(old.packages[key]) and not is_unwanted(package):
            yield (f'package "{key}": uninstall cancelled — nodes where uninstall completed will need to re-install')


def admit_policy(request: AdmissionRequest, view: View) -> Verdict:
    return _admit_policy(request, view, POLICY_KINDS[0])


def admit_nodewright_policy(request: AdmissionRequest, view: View) -> Verdict:
    return _admit_policy(request, view, POLICY_KINDS[1])


def _admit_policy(request: AdmissionRequest, view: View, kind: str) -> Verdict:
    if request.operation == "DELETE":
        return _delete(request.name, view, kind)
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


def _delete(name: str, view: View, kind: str) -> Verdict:
    users, texts = list[SkyhookRow](), list[str]()
    for group in readable_groups(view):
        naming = view.rows(OBJECTS_OF_POLICY[group], name, SkyhookRow)
        found = [row for row in naming if (policy := policy_of(view, row)) is None or policy.key.kind == kind]
        users += found
        if found:
            texts.append(f"{len(found)} {group.kind}(s): [{' '.join(user.name for user in found)}]")
    if not users:
        return ALLOWED
    message = f'cannot delete DeploymentPolicy "{name}": still referenced by {" and ".join(texts)}'
    return denial(message, *(user.key for user in users))


def _read(obj: Struct | Unreadable | None, kind: type[Reviewed]) -> Reviewed | Verdict:
    if isinstance(obj, kind):
        return obj
    if isinstance(obj, Unreadable):
        return unreadable(f"the object cannot be read: {obj.why}")
    return unreadable("there is no content to decode")


def _pointer(*parts: str) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)
