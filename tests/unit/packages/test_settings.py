"""The settings of the packages surface by file and by the environment of its original, and what is wrong with them."""

from __future__ import annotations

import pytest

from haulout.cli.as_nodewright_operator import main as nodewright_operator
from haulout.cli.as_skyhook_operator import EnvironmentProblem, settings
from haulout.core.declaration import Context
from haulout.settings.context import context_of
from haulout.settings.file import read_file
from haulout.settings.lint import lint_file
from haulout.settings.settings import Settings
from haulout.surfaces.packages.options import Options, make_options
from haulout.surfaces.packages.settings import PackagesSettings

VARIABLES = {
    "ALLOWED_IMAGE_PREFIXES": "registry.example.com/team, registry.example.org:5000",
    "REQUIRE_CONTAINER_SHA": "true",
    "FORBID_AGENT_IMAGE_OVERRIDE": "true",
}
BLOCK = """
surfaces:
  packages:
    allowedImagePrefixes: [registry.example.com/team, "registry.example.org:5000"]
    requireContainerSHA: true
    forbidAgentImageOverride: true
"""


def by_environment(**variables: str) -> Options:
    found = settings(variables)
    packages = found.of(PackagesSettings)
    assert packages is not None
    return make_options(packages, context_of(found))


def by_file(text: str) -> PackagesSettings:
    block = read_file(text.encode(), "haulout.yaml", {}, {}).blocks["packages"]
    assert isinstance(block, PackagesSettings)
    return block


def test_nothing_is_ruled_unless_it_is_asked_for() -> None:
    assert (by_environment(), by_file("surfaces: {packages: {}}")) == (Options(), PackagesSettings())


def test_the_environment_and_the_file_set_the_same_rules() -> None:
    options = by_environment(**VARIABLES)
    assert options.has_image_rules
    assert options == make_options(by_file(BLOCK), Context(alone=True))


def test_the_environment_has_all_problems_in_the_words_of_the_original() -> None:
    variables = {
        "NAMESPACE": "",
        "COPY_DIR_ROOT": "var/lib",
        "DEFAULT_INTERVAL": "59s",
        "RUNTIME_REQUIRED_TAINT": "a=b:NoSchedule-",
        "AGENT_IMAGE": "",
        "PAUSE_IMAGE": "pause",
        "MAX_UNAVAILABLE_NODES": "some",
        "STAGE_TIMEOUT": "-1s",
        "PRE_PULL_TIMEOUT": "-1s",
        "ALLOWED_PROMETHEUS_RANGES": "10.0.0.0/8,here",
    }
    with pytest.raises(EnvironmentProblem) as problem:
        settings(variables)
    assert str(problem.value).split(", ") == [
        "namespace must be set",
        "max interval must be at least 1 minute",
        "copy dir root must start with /",
        "runtime required taint must not be a deletion",
        "agent image must be set",
        "pause image must contain a tag",
        "max unavailable nodes must be a count or a percentage",
        "stage timeout must not be negative",
        "pre pull timeout must not be negative",
        "allowed prometheus ranges: here is no network",
    ]


@pytest.mark.parametrize("prefix", ["registry.example.com/team/", "registry.example.com/*", "team:1.0", "Team/x y"])
def test_what_is_no_prefix_keeps_the_operator_from_starting(prefix: str) -> None:
    with pytest.raises(EnvironmentProblem, match=r"allowed image prefixes: .* is no registry or repository"):
        settings({"ALLOWED_IMAGE_PREFIXES": prefix})
    text = f"surfaces:\n  packages:\n    allowedImagePrefixes: ['{prefix}']\n"
    (finding,) = lint_file(text.encode(), "haulout.yaml", {})
    assert finding.path.startswith("surfaces.packages.allowedImagePrefixes")
    assert (finding.line, finding.severity) == (3, "error")
    assert "without a slash at the end" in finding.what


def test_the_renamed_original_has_defaults_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESPACE", "METRICS_PORT", "AGENT_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    found = nodewright_operator([])
    assert isinstance(found, Settings)
    packages = found.of(PackagesSettings)
    assert packages is not None
    assert (packages.namespace, found.http, found.guarded) == ("nodewright", ":8443", True)
    assert packages.agent_image == "ghcr.io/nvidia/nodewright/agent:latest"
    assert packages.runtime_required_taint == "nodewright.nvidia.com=runtime-required:NoSchedule"
    assert found.webhooks.service == "nodewright-webhook-service"


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("JOB_TTL_SUCCEEDED", "59s", "job ttl succeeded must be at least 1 minute"),
        ("JOB_TTL_FAILED", "59s", "job ttl failed must be at least 1 minute"),
        ("JOB_STAGE_TIMEOUT", "-1s", "job stage timeout must be greater than or equal to 0"),
        ("JOB_BACKOFF_LIMIT", "-1", "job backoff limit must be greater than or equal to 0"),
    ],
)
def test_limits_of_jobs_are_checked_in_the_words_of_the_original(variable: str, value: str, problem: str) -> None:
    with pytest.raises(EnvironmentProblem, match=problem):
        settings({variable: value})
