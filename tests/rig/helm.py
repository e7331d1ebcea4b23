"""The real Helm in a home of its own: renders charts, and installs them on a control plane."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import yaml

from tests.rig.api import Json
from tests.rig.plane import tool

Key = tuple[str, str, str]


class HelmError(Exception):
    """Helm refused something. The message is what it printed."""


@functools.cache
def _home() -> tempfile.TemporaryDirectory[str]:
    """Return a home without repositories, plugins or a cache of servers, which is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="haulout-helm-")


def helm(*words: str | Path, values: Json | None = None, kubeconfig: Path | None = None) -> str:
    """Run Helm, with values that it reads from its standard input. Return what it printed. Raises HelmError."""
    given = ["-f", "-"] if values is not None else []
    home = {"HOME": _home().name, "PATH": os.environ["PATH"]}
    where = {"KUBECONFIG": str(kubeconfig or Path(_home().name) / "none")}
    done = subprocess.run(
        [str(tool("helm")), *map(str, words), *given],
        input=json.dumps(values),
        env={**home, **where},
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )
    if done.returncode != 0:
        raise HelmError(done.stderr.strip())
    return done.stdout


def rendered(
    chart: Path, values: Json | None = None, *, release: str = "haulout", namespace: str = "haulout-system"
) -> list[Json]:
    """Return the objects of a release, in Helm's order. Raises HelmError."""
    text = helm("template", release, chart, "--namespace", namespace, "--include-crds", values=values or {})
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def by_key(objects: list[Json]) -> dict[Key, Json]:
    """Return objects by kind, namespace and name."""
    found = {key_of(each): each for each in objects}
    assert len(found) == len(objects), "an object is there twice"
    return found


def key_of(found: Json) -> Key:
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]
