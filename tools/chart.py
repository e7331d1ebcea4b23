"""Writes the Helm chart's templates from what `haulout manifests` prints, so that there is one truth about both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from haulout.cli.install import workload
from haulout.cli.manifests import SURFACES, Json, written
from haulout.cli.rbac import ACCOUNT, METAL3, documents_of
from haulout.cli.webhooks import WEBHOOKS, registrations

CHART = Path(__file__).parent.parent / "deploy" / "chart"
# Stand-ins for what a release decides, and what they are in a template.
NAMESPACE, IMAGE, SETTINGS, REPLICAS = "release-namespace", "release-image", "release-settings", 987654321
PLACES = {
    NAMESPACE: "{{ .Release.Namespace }}",
    IMAGE: "{{ .Values.image }}",
    SETTINGS: '{{ printf "%q" .Values.settings }}',
    str(REPLICAS): "{{ .Values.replicas }}",
}


def templates() -> Iterator[tuple[str, str]]:
    """The name and the text of each."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    yield "kernel.yaml", _text(list(documents_of("kernel", NAMESPACE, subject)))
    for surface in (name for name in SURFACES if name != "kernel"):
        documents = [*documents_of(surface, NAMESPACE, subject, (METAL3,) if surface == "clusterapi" else ())]
        if surface in WEBHOOKS:
            documents += registrations((surface,), NAMESPACE)
        yield f"{surface}.yaml", _where(f".Values.surfaces.{surface}", _text(documents))
    yield "workload.yaml", _text(list(workload(NAMESPACE, IMAGE, REPLICAS, SETTINGS, profiles=True)))


def _text(documents: list[Json]) -> str:
    text = "".join(map(written, documents))
    for stand_in, place in PLACES.items():
        text = text.replace(stand_in, place)
    metal3 = yaml.dump([METAL3.rule()], sort_keys=False)
    return text.replace(metal3, _where(".Values.metal3", metal3))


def _where(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def main() -> int:
    for name, text in templates():
        (CHART / "templates" / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
