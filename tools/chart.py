"""Writes the Helm chart's templates from the same declarations as `haulout manifests`, so that both always agree."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import yaml

from haulout.cli.install import settings_text
from haulout.cli.rbac import documents, head, namespaces_of, rule
from haulout.core.budgets.declare import OWN_CERTIFICATES, WEBHOOK_SECRET
from haulout.core.budgets.override_registration import override_policy
from haulout.core.rights import Option, Right
from haulout.core.surface_names import BUILT_IN
from haulout.manifests.console import PORT as CONSOLE_PORT
from haulout.manifests.console import ROLES as CONSOLE_ROLES
from haulout.manifests.console import TLS_FOLDER, as_account, console_roles, console_workload
from haulout.manifests.documents import Json, yaml_document
from haulout.manifests.rights import Choice, PlacedRole, default_names, options, placed_roles
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.webhooks import certificate_secret, configurations, surroundings
from haulout.manifests.workload import ACCOUNT, FOLDER, config_volume, workload
from haulout.manifests.workload import IMAGE as DEFAULT_IMAGE
from haulout.surfaces.registry import all_declarations as all_declared
from haulout.surfaces.registry import surface as declared

CHART = Path(__file__).parent.parent / "deploy" / "chart"
# Stand-ins for values that a release chooses. `PLACES` says what replaces them in a template, where `$` is the top
# level, also within a range.
NAMESPACE, IMAGE, SETTINGS, REPLICAS = "release-namespace", "release-image", "release-settings", 987654321
EACH_NAMESPACE, EACH_NAME = "each-namespace", "each-name"
STAND_INS = {name: f"release-{name.replace('_', '-')}" for name in default_names()}


def value(name: str) -> str:
    """Return the path of a chart value, such as `.Values.leaseNamespace` for `lease_namespace`."""
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
CHOICE = Choice(
    namespace=NAMESPACE,
    account=ACCOUNT,
    names=default_names(),
    flags=frozenset(),
    lists={name: {} for name in options()},
)
# A choice with every right. In the templates, conditions around rights decide which of them a release has.
EVERYTHING = Choice(
    namespace=NAMESPACE,
    account=ACCOUNT,
    names=STAND_INS,
    flags=frozenset(name for name, option in options().items() if not option.lists),
    lists={name: {EACH_NAMESPACE: (EACH_NAME,)} for name, option in options().items() if option.lists},
)
# The surfaces with a configuration file, which a release mounts.
WITH_FILES = tuple(name for name in BUILT_IN if declared(name).config_file is not None)
KEEP = {"helm.sh/resource-policy": "keep"}
CONSOLE = ".Values.console"
CONSOLE_CHECK = """{{- if not (or .Values.console.tlsSecret .Values.console.extraContainers) }}
{{- fail "console.enabled needs console.tlsSecret, or a proxy that ends TLS in console.extraContainers: tokens do not travel in clear" }}
{{- end }}
"""
# Fields of a pod's spec that a release may set, with the names of the chart's values.
PLACING = ("nodeSelector", "affinity", "imagePullSecrets", "hostNetwork")
# Default limits of containers in the namespace of packages.
LIMIT_RANGE = """{{- if .Values.limitRange }}
---
apiVersion: v1
kind: LimitRange
metadata:
  name: haulout-packages
  namespace: {{ $.Values.packagesNamespace }}
  labels:
    app.kubernetes.io/name: haulout
    app.kubernetes.io/part-of: haulout
spec:
  limits:
  - type: Container
    default: {{ toJson .Values.limitRange.default }}
    defaultRequest: {{ toJson .Values.limitRange.defaultRequest }}
{{- end }}
"""
# The flags and the volume of the console's certificate.
TLS = "release-console-tls"
DISRUPTION_BUDGET = """{{- if .Values.podDisruptionBudget.minAvailable }}
{{- if ge (int .Values.podDisruptionBudget.minAvailable) (int .Values.replicas) }}
{{- fail "podDisruptionBudget.minAvailable must be below replicas: otherwise no node with a pod of haulout can be drained" }}
{{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: haulout
  namespace: {{ $.Release.Namespace }}
  labels:
    app.kubernetes.io/name: haulout
    app.kubernetes.io/part-of: haulout
spec:
  minAvailable: {{ .Values.podDisruptionBudget.minAvailable }}
  selector:
    matchLabels:
      app.kubernetes.io/name: haulout
{{- end }}
"""


def templates() -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each template."""
    yield "kernel.yaml", _filled(_roles("kernel") + _text(list(override_policy())))
    yield "viewer.yaml", _filled(_viewer(BUILT_IN, ("", NAMESPACE)))
    for surface in BUILT_IN:
        text = (
            _namespaces(surface)
            + (LIMIT_RANGE if surface == "packages" else "")
            + _roles(surface)
            + _viewer((surface,), [STAND_INS[each.name] for each in declared(surface).names if each.is_namespace])
            + _text(list(configurations(declared(surface).webhooks, NAMESPACE)))
        )
        yield f"{surface}.yaml", _where(f".Values.surfaces.{surface}", _filled(text))
    served = " ".join(f".Values.surfaces.{surface}" for surface in BUILT_IN if declared(surface).webhooks)
    shared = [*surroundings(NAMESPACE), *configurations(declared("kernel").webhooks, NAMESPACE)]
    yield "webhooks.yaml", _where(f"or {served}", _filled(_text(shared) + _secret()))
    yield "console.yaml", _where(".Values.console.enabled", _filled(_console()))
    made = workload(NAMESPACE, IMAGE, REPLICAS, SETTINGS, files=[config_volume(name) for name in WITH_FILES])
    yield "workload.yaml", _open_to_more(_filled(_text(list(made)))) + DISRUPTION_BUDGET


def _roles(surface: str) -> str:
    return "".join(_role(placed) for placed in placed_roles(surface, EVERYTHING, every_right=True))


def _role(placed: PlacedRole) -> str:
    rules = "".join(map(_rule, placed.rights))
    _, *binding = documents([placed], EVERYTHING)
    text = f"{yaml_document(head(placed))}rules:\n{rules}{_text(binding)}"
    if not placed.role.option:
        return text
    option = options()[placed.role.option]
    if not option.lists:
        return _where(value(option.name), text)
    each = "$namespace, $names" if option.has_names else "$namespace"
    return _block(f"range {each} := {value(option.name)}", text)


def _viewer(surfaces: Iterable[str], namespaces: Collection[str]) -> str:
    """Return the viewer roles in these namespaces. A surface's namespace exists only if the surface is switched on."""
    roles = [placed for placed in viewer_roles(surfaces, EVERYTHING) if placed.namespace in namespaces]
    return _text(list(documents(roles, EVERYTHING)))


def _console() -> str:
    """Return the console's template. Without a certificate, it listens to a proxy in the same pod alone."""
    roles = [placed for word in CONSOLE_ROLES for placed in console_roles(word, BUILT_IN, EVERYTHING)]
    flags = ["--tls-certificate", f"{TLS_FOLDER}/tls.crt", "--tls-key", f"{TLS_FOLDER}/tls.key"]
    volume = {"name": "tls", "secret": {"secretName": TLS}}
    text = _text(list(console_workload(NAMESPACE, IMAGE, REPLICAS, flags, [volume])))
    arguments = "".join(f"        - {word}\n" for word in (f":{CONSOLE_PORT}", *flags))
    plain = f"        - 127.0.0.1:{CONSOLE_PORT}\n        - --behind-proxy\n"
    text = _replaced(text, arguments, _either(arguments, plain))
    target = "    targetPort: console\n"
    text = _replaced(text, target, _either(target, f"    targetPort: {{{{ {CONSOLE}.proxyPort }}}}\n"))
    for begin, end in (("        readinessProbe", "        resources"), ("      volumes", "      containers")):
        part = text[text.index(f"{begin}:\n") : text.index(f"{end}:\n")]
        text = text.replace(part, _where(f"{CONSOLE}.tlsSecret", part))
    mounts = text[text.index("        volumeMounts:\n") :]
    text = text.replace(mounts, _where(f"{CONSOLE}.tlsSecret", mounts))
    containers = "      containers:\n"
    proxies = _block(f"range {CONSOLE}.extraContainers", "      - {{ toJson . }}\n")
    text = _replaced(text, containers, f"{containers}{proxies}")
    text = text.replace(str(REPLICAS), f"{{{{ {CONSOLE}.replicas }}}}").replace(TLS, f"{{{{ {CONSOLE}.tlsSecret }}}}")
    return CONSOLE_CHECK + _text(list(documents(roles, as_account(EVERYTHING)))) + text


def _replaced(text: str, part: str, other: str) -> str:
    assert part in text, part
    return text.replace(part, other)


def _either(secure: str, plain: str) -> str:
    return f"{{{{- if {CONSOLE}.tlsSecret }}}}\n{secure}{{{{- else }}}}\n{plain}{{{{- end }}}}\n"


def _secret() -> str:
    return _where(value(OWN_CERTIFICATES), _text([certificate_secret(NAMESPACE, STAND_INS[WEBHOOK_SECRET])]))


def _rule(right: Right) -> str:
    text = yaml.dump([rule(right)], sort_keys=False)
    if right.option:
        return _where(value(right.option), text)
    return _where(f"not {value(right.unless)}", text) if right.unless else text


def _namespaces(surface: str) -> str:
    """Return the namespaces of a surface. Helm keeps them at an uninstall, because other programs may use them, too."""
    kept = [
        {**made, "metadata": {**made["metadata"], "annotations": KEEP}} for made in namespaces_of(surface, EVERYTHING)
    ]
    return _where(".Values.createLeaseNamespace", _text(kept)) if kept else ""


def _open_to_more(text: str) -> str:
    """Add what a release may set to the Deployment: volumes, variables, and Secrets with configuration files."""
    for name in WITH_FILES:
        volume = f"      - name: {name}\n        configMap:\n          name: haulout-{name}\n          optional: true\n"
        mount = f"        - name: {name}\n          mountPath: {FOLDER}/{name}\n          readOnly: true\n"
        assert volume in text
        assert mount in text
        secret = f".Values.{name}.configSecret"
        taken = f"      - name: {name}\n        secret:\n          secretName: {{{{ {secret} }}}}\n          optional: true\n"
        either = f"{{{{- if {secret} }}}}\n{taken}{{{{- else }}}}\n{volume}{{{{- end }}}}\n"
        text = text.replace(volume, _where(f".Values.surfaces.{name}", either))
        text = text.replace(mount, _where(f".Values.surfaces.{name}", mount))
    text = text.replace("      containers:\n", _more("      ", "extraVolumes") + "      containers:\n")
    text = text.replace("      volumes:\n", _more("      ", "tolerations") + "      volumes:\n")
    placing = "".join(_where(f".Values.{name}", f"      {name}: {{{{ toJson .Values.{name} }}}}\n") for name in PLACING)
    account = f"      serviceAccountName: {ACCOUNT}\n"
    text = text.replace(account, account + placing)
    begin, end = text.index("        resources:\n"), text.index("        securityContext:\n")
    text = text[:begin] + "        resources: {{ toJson .Values.resources }}\n" + text[end:]
    arguments = "        - /etc/haulout/haulout.yaml\n"
    environment = "".join(
        _where(f".Values.{name}", f"        {name}: {{{{ toJson .Values.{name} }}}}\n") for name in ("env", "envFrom")
    )
    return text.replace(arguments, arguments + environment) + _more("        ", "extraVolumeMounts")


def _more(indent: str, name: str) -> str:
    """Return a template that prints the entries of a list value as JSON, which is valid YAML at any indentation."""
    return _block(f"range .Values.{name}", f"{indent}- {{{{ toJson . }}}}\n")


def _text(made: list[Json]) -> str:
    return "".join(map(yaml_document, made))


def _filled(text: str) -> str:
    for stand_in, place in PLACES.items():
        text = text.replace(stand_in, place)
    return text


def _where(condition: str, text: str) -> str:
    return _block(f"if {condition}", text)


def _block(words: str, text: str) -> str:
    return f"{{{{- {words} }}}}\n{text}{{{{- end }}}}\n"


def values() -> str:
    """Return values.yaml, with every surface, option and name that the surfaces declare."""
    return "".join(f"{line}\n" for line in _values())


def _values() -> Iterator[str]:
    yield "# The image to run, with its tag."
    yield f"image: {DEFAULT_IMAGE}"
    yield "# How many; one of them acts at a time."
    yield "replicas: 2"
    yield "# Whose roles and webhooks are installed. What is served is said in the settings."
    yield "surfaces:"
    chosen = [name for name in BUILT_IN if not declared(name).is_installed_by_name]
    for name in BUILT_IN:
        surface = declared(name)
        if name not in chosen and surface.crds:
            yield f"  # {surface.summary} Its definitions: haulout crds {name} | kubectl apply -f -"
        else:
            yield f"  # {surface.summary}"
        yield f"  {name}: {str(name in chosen).lower()}"
    yield "# The haulout.yaml. It is stored in a ConfigMap: passwords do not belong into it."
    yield "settings: |"
    yield from (f"  {line}" if line else "" for line in settings_text(tuple(chosen), CHOICE).splitlines())
    yield ""
    yield "# A surface reads its own configuration file from the ConfigMap haulout-SURFACE, or from the Secret that is named here: for"
    yield f"# files that hold passwords. Every entry of it is a file in {FOLDER}/SURFACE."
    for name in WITH_FILES:
        yield f"{name}:"
        yield '  configSecret: ""'
    yield "# As in a pod: variables of the environment, which configuration files may use as ${NAME}, and files to mount."
    yield from (f"{name}: []" for name in ("env", "envFrom", "extraVolumes", "extraVolumeMounts"))
    yield "# As in a pod: where the operator runs, beside control planes, what it may use, and with which Secrets its image is pulled."
    yield "nodeSelector: {}"
    yield "affinity: {}"
    yield "tolerations: []"
    yield "imagePullSecrets: []"
    yield "hostNetwork: false"
    yield "resources:"
    yield "  requests: {cpu: 100m, memory: 64Mi}"
    yield "  limits: {memory: 512Mi}"
    yield "# So many pods of the operator stay while nodes are drained; 0 for no PodDisruptionBudget. It has to be below replicas."
    yield "podDisruptionBudget: {minAvailable: 0}"
    yield "# The web console, in a Deployment of its own that only reads (docs/console.md). tlsSecret: a Secret with tls.crt and tls.key."
    yield "# Without it, extraContainers has the proxy that ends TLS in the same pod, at proxyPort, and passes the callers' tokens to"
    yield f"# 127.0.0.1:{CONSOLE_PORT}."
    yield "console:"
    yield "  enabled: false"
    yield "  replicas: 1"
    yield '  tlsSecret: ""'
    yield "  extraContainers: []"
    yield "  proxyPort: 4180"
    yield "# Resources of containers in packagesNamespace that set none, as {default: {cpu: 500m, memory: 512Mi}, defaultRequest: ...}."
    yield "limitRange: null"
    yield ""
    yield "# What only some configurations need. Nothing of this is allowed unless it is asked for here."
    for option in options().values():
        yield f"# {option.help}{_form(option)}"
        yield f"{_key(option.name)}: {_default(option)}"
    yield ""
    yield "# Names that settings may change, too."
    for each in (each for surface in all_declared() for each in surface.names):
        yield f"# {each.setting}"
        yield f"{_key(each.name)}: {each.default}"
    yield "# Off where the namespaces of surfaces are there already. They stay when the release is uninstalled."
    yield "createLeaseNamespace: true"


def _key(name: str) -> str:
    return value(name).removeprefix(".Values.")


def _form(option: Option) -> str:
    if not option.lists:
        return ""
    return " As {NAMESPACE: [NAME, ...]}." if option.has_names else " A list of namespaces."


def _default(option: Option) -> str:
    return str(option.default).lower() if not option.lists else "{}" if option.has_names else "[]"


def definitions() -> dict[str, str]:
    """Return the symbolic links to the definitions that a release installs, by name, with their targets."""
    found: dict[str, str] = {}
    for surface in all_declared():
        if not surface.is_installed_by_name:
            folder = surface.package.replace(".", "/")
            found |= {f"{name}.yaml": f"../../../src/{folder}/crds/{name}.yaml" for name in surface.crds}
    return found


def main() -> int:
    for name, text in templates():
        (CHART / "templates" / name).write_text(text)
    (CHART / "values.yaml").write_text(values())
    for path in (CHART / "crds").iterdir():
        path.unlink()
    for name, target in definitions().items():
        (CHART / "crds" / name).symlink_to(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
