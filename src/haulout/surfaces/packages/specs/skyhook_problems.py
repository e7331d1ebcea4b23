"""What is wrong with the spec of a Skyhook, in the words of the original."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter

from haulout.base import duration, glob
from haulout.base.quantity import QuantityError, amount
from haulout.base.selector import SelectorError
from haulout.surfaces.packages.pods.names import LONGEST_LABEL, package_label
from haulout.surfaces.packages.specs.versions import is_version
from haulout.surfaces.packages.wire import (
    LONGEST_SKYHOOK_NAME,
    Package,
    Quantity,
    Resources,
    Spec,
    normalize_spec,
    selector_of,
)

NAME_PATTERN = "(?m)^[a-z][-a-z0-9]{0,41}[a-z]$"
_NAME = re.compile(NAME_PATTERN)
# The spec is validated whenever the Skyhook is decided about. With more packages the status has no room for many nodes.
MOST_PACKAGES = 500
# The limit on the work of comparing patterns with keys: the length of all patterns times the length of all keys.
MOST_COMPARISONS = 2_000_000
# Each package with the packages that it depends on, all by `name|version`.
Graph = Mapping[str, tuple[str, ...]]


def name_problem(name: str) -> str:
    if len(name) <= LONGEST_SKYHOOK_NAME:
        return ""
    return f'skyhook name "{name}" is longer than {LONGEST_SKYHOOK_NAME} characters, which no annotation of a node has room for'


def spec_problem(spec: Spec) -> str:
    """Return the first problem of a spec; empty if it has none. Packages are checked in the order of their keys."""
    return next(_problems(normalize_spec(spec)), "")


def image_tag(image: str) -> str:
    """Return the tag of an image; empty if it has none. A registry's port and a digest are not a tag."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def tag_problem(spec: Spec) -> str:
    """Return the first problem of an image with a tag or a digest, which NodeWrights do not allow; empty if there is none."""
    for key, package in sorted(spec.packages.items()):
        named, image, tag = f"package {package.name or key}'s image", package.image, image_tag(package.image)
        if "@" in image:
            return (
                f"error {named} '{image}' contains an inline digest. Do not embed a digest in the image; pin the image"
                " bytes using the package's containerSHA field instead"
            )
        if tag:
            return (
                f"error {named} '{image}' contains an inline tag '{tag}'. Do not embed a tag in the image; the package"
                " version supplies the tag"
            )
    return ""


def warnings(spec: Spec) -> Iterator[str]:
    """Yield warnings about fields that are accepted but have no effect."""
    if spec.pause:
        yield 'spec.pause has no effect: set the annotation skyhook.nvidia.com/pause to "true"'
    for key, package in sorted(spec.packages.items()):
        tag = image_tag(package.image)
        if tag and tag != package.version:
            yield (
                f"error package {package.name or key}'s image tag was set to '{tag}' for '{package.image}' and doesn't"
                f" match the pacakge's version '{package.version}'. Do not explicitly set the image's tag in the"
                " package's definition (The package version will be set as the tag)"
            )


def _problems(spec: Spec) -> Iterator[str]:
    if len(spec.packages) > MOST_PACKAGES:
        yield f"the Skyhook has {len(spec.packages)} packages, and may have at most {MOST_PACKAGES}"
    budget = spec.interruption_budget
    has_percent = budget is not None and budget.percent is not None
    has_count = budget is not None and budget.count is not None
    if has_percent and has_count:
        yield "error InterruptionBudget is not valid, both percent and count can not be set at the same time"
    if spec.deployment_policy and (has_percent or has_count):
        yield "deploymentPolicy and interruptionBudget are mutually exclusive"
    try:
        selector_of(spec.node_selectors)
    except SelectorError as error:
        yield f"node selectors are not valid: {error}"
    try:
        selector_of(spec.pod_non_interrupt_labels)
    except SelectorError as error:
        yield f"pod non-interrupt labels are not valid: {error}"
    for key, package in sorted(spec.packages.items()):
        yield from _package_problems(key, package)
    yield from _graph_problems(spec)
    if spec.drain_config is not None:
        for field, text in (("timeout", spec.drain_config.timeout), ("gracePeriod", spec.drain_config.grace_period)):
            yield from duration_problems(f"drain config: drainConfig.{field}", text, _NOT_BELOW_ZERO)


def _package_problems(key: str, package: Package) -> Iterator[str]:
    name = package.name
    if name != key:
        yield f"error package {key}'s name was set to {name}. Do not explicitly set the name in the package's definition"
    # `fullmatch`, because with (?m) `$` also matches before a line break, and a name must not have one.
    if not _NAME.fullmatch(name):
        yield f"package name [{name}] is not valid. must match [{NAME_PATTERN}]"
    yield from _config_problems(package)
    if not package.image:
        yield f'package "{name}": image must be set'
    if not is_version(package.version):
        yield f"error version string for {name} is invalid: {package.version}"
    if len(package_label(name, package.version)) > LONGEST_LABEL:
        yield f'package "{name}": name and version must not be longer than {LONGEST_LABEL - 1} characters together'
    if package.resources is not None:
        yield from _resource_problems(name, package.resources)
    yield from duration_problems(f'package "{name}": gracefulShutdown', package.graceful_shutdown)
    yield from duration_problems(f'package "{name}": stageTimeout', package.stage_timeout, _NOT_BELOW_ZERO)
    if package.uninstall is not None and package.uninstall.apply and not package.uninstall.enabled:
        yield f'package "{name}": uninstall.apply requires uninstall.enabled to be true'


def _config_problems(package: Package) -> Iterator[str]:
    patterns = [pattern for pattern in package.config_interrupts if "*" in pattern]
    if sum(map(len, patterns)) * sum(map(len, package.config_map)) > MOST_COMPARISONS:
        yield f'package "{package.name}": {len(patterns)} patterns of config interrupts are too many or too long for its keys'
        return
    for pattern in sorted(package.config_interrupts):
        if "*" in pattern:
            if not any(_fits(pattern, key) for key in package.config_map):
                yield f'error config interrupt glob "{pattern}" does not match any configMap keys'
        elif pattern not in package.config_map:
            yield f"error config interrupt for key that doesn't exist: {pattern} doesn't exist as a configmap"


def _fits(pattern: str, key: str) -> bool:
    try:
        return glob.matches(pattern, key)
    except glob.GlobError:
        return False


def _resource_problems(name: str, resources: Resources) -> Iterator[str]:
    values = {
        "cpuRequest": resources.cpu_request,
        "cpuLimit": resources.cpu_limit,
        "memoryRequest": resources.memory_request,
        "memoryLimit": resources.memory_limit,
    }
    try:
        amounts = {field: _amount(value) for field, value in values.items()}
    except QuantityError as error:
        yield f'package "{name}": resources are not valid: {error}'
        return
    if not any(amounts.values()):
        return
    if not all(amounts.values()):
        yield (
            f'package "{name}": if any resource override is set, all of cpuRequest, cpuLimit, memoryRequest,'
            " memoryLimit must be set"
        )
    for kind in ("cpu", "memory"):
        limit, request = f"{kind}Limit", f"{kind}Request"
        if amounts[limit] < amounts[request]:
            yield f'package "{name}": {limit} ({values[limit]}) must be >= {request} ({values[request]})'
    if any(value < 0 for value in amounts.values()):
        yield f'package "{name}": all resource values must be positive'


def _amount(value: Quantity | None) -> Fraction:
    return Fraction(0) if value is None else amount(value)


def _graph_problems(spec: Spec) -> Iterator[str]:
    packages = [package for _, package in sorted(spec.packages.items())]
    empty = sorted({name for package in packages for name, version in package.depends_on.items() if not version})
    if empty:
        yield f"error trying to validate skyhook spec building graph: DependsOn version is empty for [{empty[0]}]"
    graph = _graph_of(packages)
    invalid = "error trying to validate skyhook spec graph is invalid: error graph is not valid"
    if absent := _missing(graph):
        yield f"{invalid}, missing: [{' '.join(absent)}]"
    if circle := _cycle(graph):
        yield f"{invalid}, cycle: [{' '.join(circle)}]"


def _graph_of(packages: Iterable[Package]) -> Graph:
    return {
        package.key: tuple(f"{name}|{version}" for name, version in sorted(package.depends_on.items()))
        for package in packages
    }


def _missing(graph: Graph) -> list[str]:
    """Return the packages that others depend on and that the Skyhook does not have, sorted."""
    return sorted({needed for names in graph.values() for needed in names} - set(graph))


def _cycle(graph: Graph) -> list[str]:
    """Return one cycle of dependencies, or nothing. The smallest package comes first and again last."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # In `error.args[1]` each package depends on the one before it, and the last is the first again.
        circle: list[str] = error.args[1][:0:-1]
        start = circle.index(min(circle))
        return [*circle[start:], *circle[:start], circle[start]]
    return []


_NEGATIVE = "must not be negative: {}"
# The original's words for fields that it has, too.
_NOT_BELOW_ZERO = "must be greater than or equal to 0"


def duration_problems(place: str, text: str | None, negative: str = _NEGATIVE) -> Iterator[str]:
    """Yield what is wrong with a Go duration that must not be negative. `negative`: what is said of one that is."""
    if text is None:
        return
    try:
        nanoseconds = duration.parse_nanoseconds(text)
    except duration.DurationError as error:
        yield f"{place} is not valid: {error}"
        return
    if nanoseconds < 0:
        yield f"{place} {negative.format(text)}"
