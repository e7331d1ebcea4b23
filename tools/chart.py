"""Writes the Helm chart's templates from what `haulout manifests` prints, so that there is one truth about both."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import yaml

from haulout.cli.install import profile_files, workload
from haulout.cli.rbac import ACCOUNT, documents, head, namespaces_of, rule
from haulout.core.rights import Right
from haulout.core.surface_names import BUILT_IN
from haulout.manifests.documents import Json, written
from haulout.manifests.rights import Choice, PlacedRole, default_names, options, placed_roles
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.webhooks import configurations, surroundings
from haulout.surfaces.registry import surface as declared

CHART = Path(__file__).parent.parent / "deploy" / "chart"
# Stand-ins for what a release decides, and what they are in a template. `$` is the top, also within a range.
NAMESPACE, IMAGE, SETTINGS, REPLICAS = "release-namespace", "release-image", "release-settings", 987654321
EACH_NAMESPACE, EACH_NAME = "each-namespace", "each-name"
STAND_INS = {name: f"release-{name.replace('_', '-')}" for name in default_names()}


def value(name: str) -> str:
    """The path of a setting of the chart."""
    first, *others = name.split("_")
    return ".Values." + first + "".join(map(str.capitalize, others))


PLACES = {
    NAMESPACE: "{{ $.Release.Namespace }}",
    IMAGE: "{{ .Values.image }}",
    SETTINGS: '{{ printf "%q" .Values.settings }}',
    str(REPLICAS): "{{ .Values.replicas }}",
    EACH_NAMESPACE: "{{ $namespace }}",
    f"  - {EACH_NAME}\n": '{{- range $names }}\n  - {{ printf "%q" . }}\n{{- end }}\n',
    **{stand_in: f"{{{{ ${value(name)} }}}}" for name, stand_in in STAND_INS.items()},
}
# Every right there is; which of them a release has is decided by the conditions around them.
EVERYTHING = Choice(
    namespace=NAMESPACE,
    account=ACCOUNT,
    names=STAND_INS,
    flags=frozenset(name for name, option in options().items() if not option.lists),
    lists={name: {EACH_NAMESPACE: (EACH_NAME,)} for name, option in options().items() if option.lists},
)
KEEP = {"helm.sh/resource-policy": "keep"}


def templates() -> Iterator[tuple[str, str]]:
    """The name and the text of each."""
    yield "kernel.yaml", _filled(_roles("kernel"))
    yield "viewer.yaml", _filled(_viewer(BUILT_IN, ("", NAMESPACE)))
    for surface in BUILT_IN:
        text = (
            _namespaces(surface)
            + _roles(surface)
            + _viewer((surface,), [STAND_INS[each.name] for each in declared(surface).names if each.is_namespace])
            + _text(list(configurations(declared(surface).webhooks, NAMESPACE)))
        )
        yield f"{surface}.yaml", _where(f".Values.surfaces.{surface}", _filled(text))
    served = " ".join(f".Values.surfaces.{surface}" for surface in BUILT_IN if declared(surface).webhooks)
    yield "webhooks.yaml", _where(f"or {served}", _filled(_text(list(surroundings(NAMESPACE)))))
    made = workload(NAMESPACE, IMAGE, REPLICAS, SETTINGS, files=profile_files(""))
    yield "workload.yaml", _open_to_more(_filled(_text(list(made))))


def _roles(surface: str) -> str:
    return "".join(_role(placed) for placed in placed_roles(surface, EVERYTHING, every_right=True))


def _role(placed: PlacedRole) -> str:
    rules = "".join(map(_rule, placed.rights))
    _, *binding = documents([placed], EVERYTHING)
    text = f"{written(head(placed))}rules:\n{rules}{_text(binding)}"
    if not placed.role.option:
        return text
    option = options()[placed.role.option]
    if not option.lists:
        return _where(value(option.name), text)
    each = "$namespace, $names" if option.has_names else "$namespace"
    return _block(f"range {each} := {value(option.name)}", text)


def _viewer(surfaces: Iterable[str], namespaces: Collection[str]) -> str:
    """Return the roles of people in these namespaces. A namespace of a surface is there only where the surface is."""
    roles = [placed for placed in viewer_roles(surfaces, EVERYTHING) if placed.namespace in namespaces]
    return _text(list(documents(roles, EVERYTHING)))


def _rule(right: Right) -> str:
    text = yaml.dump([rule(right)], sort_keys=False)
    if right.option:
        return _where(value(right.option), text)
    return _where(f"not {value(right.unless)}", text) if right.unless else text


def _namespaces(surface: str) -> str:
    """They may be there already, and others may keep their objects in them, too."""
    kept = [
        {**made, "metadata": {**made["metadata"], "annotations": KEEP}} for made in namespaces_of(surface, EVERYTHING)
    ]
    return _where(".Values.createLeaseNamespace", _text(kept)) if kept else ""


def _open_to_more(text: str) -> str:
    """The places where a release adds volumes and variables, and takes the profiles from a Secret."""
    files = text[text.index("      - name: profiles\n        configMap") : text.index("      containers:\n")]
    secret = "      - name: profiles\n        secret:\n          secretName: {{ .Values.profiles.configSecret }}\n"
    either = f"{{{{- if .Values.profiles.configSecret }}}}\n{secret}          optional: true\n{{{{- else }}}}\n{files}{{{{- end }}}}\n"
    text = text.replace(files, either + _more("      ", "extraVolumes"))
    arguments = "        - /etc/haulout/haulout.yaml\n"
    environment = "".join(
        _where(f".Values.{name}", f"        {name}: {{{{ toJson .Values.{name} }}}}\n") for name in ("env", "envFrom")
    )
    return text.replace(arguments, arguments + environment) + _more("        ", "extraVolumeMounts")


def _more(indent: str, name: str) -> str:
    """The entries of a list; JSON is YAML, whatever stands around it."""
    return _block(f"range .Values.{name}", f"{indent}- {{{{ toJson . }}}}\n")


def _text(made: list[Json]) -> str:
    return "".join(map(written, made))


def _filled(text: str) -> str:
    for stand_in, place in PLACES.items():
        text = text.replace(stand_in, place)
    return text


def _where(condition: str, text: str) -> str:
    return _block(f"if {condition}", text)


def _block(words: str, text: str) -> str:
    return f"{{{{- {words} }}}}\n{text}{{{{- end }}}}\n"


def main() -> int:
    for name, text in templates():
        (CHART / "templates" / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
