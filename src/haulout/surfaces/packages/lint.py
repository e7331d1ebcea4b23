"""What `haulout lint` finds in Skyhooks, NodeWrights and DeploymentPolicies: the rules of their webhooks.

What the webhook has to ask the cluster, such as whether a policy exists, is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from haulout.core.surface import ObjectProblem
from haulout.surfaces.packages.specs.policy_problems import policy_problem
from haulout.surfaces.packages.specs.skyhook_problems import name_problem, spec_problem, tag_problem, warnings
from haulout.surfaces.packages.wire import Spec
from haulout.surfaces.packages.wire_policy import PolicySpec


def lint_skyhook(name: str, spec: Mapping[str, Any]) -> Iterator[ObjectProblem]:
    read = msgspec.convert(spec, Spec)
    if problem := name_problem(name):
        yield ObjectProblem(problem, ("metadata", "name"))
    if problem := spec_problem(read):
        yield _placed(problem, read)
    for warning in warnings(read):
        yield _placed(warning, read, is_error=False)


def lint_nodewright(name: str, spec: Mapping[str, Any]) -> Iterator[ObjectProblem]:
    read = msgspec.convert(spec, Spec)
    if problem := name_problem(name):
        yield ObjectProblem(problem, ("metadata", "name"))
    if problem := tag_problem(read) or spec_problem(read):
        yield _placed(problem, read)


def lint_policy(name: str, spec: Mapping[str, Any]) -> Iterator[ObjectProblem]:
    if problem := policy_problem(msgspec.convert(spec, PolicySpec)):
        yield ObjectProblem(problem)


def _placed(problem: str, spec: Spec, *, is_error: bool = True) -> ObjectProblem:
    """Return a problem with the place of the first package whose name its text quotes."""
    words = set(problem.replace("'", " ").replace('"', " ").replace("[", " ").replace("]", " ").split())
    named = next((key for key in sorted(spec.packages) if key in words), None)
    path = ("spec",) if named is None else ("spec", "packages", named)
    return ObjectProblem(problem, path, is_error)
