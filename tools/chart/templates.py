"""The chart's templates that follow from declarations: roles, definitions, webhooks, the settings and checks of values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Iterator

import msgspec
import yaml

from haulout.cli.rbac import documents, head, namespaces_of, rule
from haulout.core.budgets.declare import OWN_CERTIFICATES, WEBHOOK_SECRET
from haulout.core.budgets.override_registration import override_policy
from haulout.core.rights import Name, Option, Right
from haulout.core.surface import Surface
from haulout.core.surface_names import BUILT_IN
from haulout.manifests.account_policy import account_policy, user_of
from haulout.manifests.console import ROLES as CONSOLE_ROLES
from haulout.manifests.console import console_roles
from haulout.manifests.documents import MANAGED, Json, yaml_document
from haulout.manifests.rights import Choice, PlacedRole, default_names, options, placed_roles
from haulout.manifests.viewer import viewer_roles
from haulout.manifests.webhooks import PORT, SERVICE, certificate_secret, configurations, surroundings
from haulout.manifests.workload import FOLDER
from haulout.surfaces.registry import KERNEL, definition_of
from haulout.surfaces.registry import surface as declared
from tools.chart.values import chosen_names, key

# Stand-ins for what a release chooses. `PLACES` says what replaces them in a template, where `$` is the top level, also
# within a range.
NAMESPACE, ACCOUNT, CONSOLE_ACCOUNT = "release-namespace", "release-account", "release-console-account"
FULLNAME, EACH_NAMESPACE, EACH_NAME = "release-fullname", "each-namespace", "each-name"
STAND_INS = {name: f"release-{name.replace('_', '-')}" for name in default_names()}
MADE = "{{- /* Made by python -m tools.chart. */ -}}\n"
KEEP = "helm.sh/resource-policy: keep"
OWN_CERTIFICATE = '(and .Values.webhooks.enabled (eq .Values.webhooks.certificates "self"))'
# The beginning of the names of objects that belong to the release, in place of that of our own.
OWN_NAME = "haulout-"
NAMED_BY_RELEASE = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "Issuer")


def value(name: str) -> str:
    """Return the path of a chart value, such as `.Values.leaseNamespace` for `lease_namespace`."""
    return f".Values.{key(name)}"


PLACES = {
    NAMESPACE: "{{ $.Release.Namespace }}",
    CONSOLE_ACCOUNT: '{{ include "haulout.fullname" $ }}-console',
    ACCOUNT: '{{ include "haulout.serviceAccountName" $ }}',
    FULLNAME: '{{ include "haulout.fullname" $ }}',
    EACH_NAMESPACE: "{{ $namespace }}",
    f"  - {EACH_NAME}\n": '{{- range $names }}\n  - {{ printf "%q" . }}\n{{- end }}\n',
    **{stand_in: f"{{{{ ${value(name)} }}}}" for name, stand_in in STAND_INS.items()},
    **{
        f"  labels:\n{''.join(f'    {name}: {text}{chr(10)}' for name, text in labels.items())}": (
            '  labels: {{- include "haulout.labels" $ | nindent 4 }}\n'
        )
        for labels in (MANAGED, {"app.kubernetes.io/managed-by": "haulout"})
    },
}
# A choice with every right. In the templates, conditions around rights decide which of them a release has.
EVERYTHING = Choice(
    namespace=NAMESPACE,
    account=ACCOUNT,
    names=STAND_INS,
    flags=frozenset(name for name, option in options().items() if not option.lists),
    lists={name: {EACH_NAMESPACE: (EACH_NAME,)} for name, option in options().items() if option.lists},
)
# Default limits of containers in the namespace of packages.
LIMIT_RANGE = """{{- if .Values.limitRange }}
---
apiVersion: v1
kind: LimitRange
metadata:
  name: {{ include "haulout.fullname" $ }}-packages
  namespace: {{ $.Values.packagesNamespace }}
  labels: {{- include "haulout.labels" $ | nindent 4 }}
spec:
  limits:
  - type: Container
    default: {{ toJson .Values.limitRange.default }}
    defaultRequest: {{ toJson .Values.limitRange.defaultRequest }}
{{- end }}
"""
# The version of Kubernetes that has ValidatingAdmissionPolicies.
POLICIES = 'semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version'


def templates() -> Iterator[tuple[str, str]]:
    """Yield the path, in the folder of templates, and the text of each template that follows from declarations."""
    for surface in (declared(KERNEL), *map(declared, BUILT_IN)):
        for name in surface.crds:
            yield f"crds/{name}.yaml", MADE + _definition(surface, name)
    policy = _where(POLICIES, _text(override_policy()))
    limits = _where(f"and .Values.accountPolicy ({POLICIES})", _text(account_policy(user_of(NAMESPACE, ACCOUNT))))
    yield "roles/kernel.yaml", MADE + _filled(_roles(KERNEL) + policy + limits)
    yield "roles/viewer.yaml", MADE + _filled(_viewer(BUILT_IN, ("", NAMESPACE)))
    console = [placed for word in CONSOLE_ROLES for placed in console_roles(word, BUILT_IN, EVERYTHING)]
    as_console = msgspec.structs.replace(EVERYTHING, account=CONSOLE_ACCOUNT)
    yield "roles/console.yaml", MADE + _where(".Values.console.enabled", _filled(_text(documents(console, as_console))))
    for name in BUILT_IN:
        places = [STAND_INS[each.name] for each in declared(name).names if each.is_namespace]
        text = (
            _namespaces(name)
            + (LIMIT_RANGE if name == "packages" else "")
            + _roles(name)
            + _apart(name, _viewer((name,), places))
        )
        yield f"roles/{name}.yaml", MADE + _where(f".Values.surfaces.{name}", _filled(text))
    yield "webhooks.yaml", MADE + _filled(_webhooks())
    yield "_settings.tpl", MADE + "".join((*_settings(), *_files()))
    yield "_surface_checks.tpl", MADE + "".join(_checks())


def _definition(surface: Surface, name: str) -> str:
    """Return a definition as a template, because Helm upgrades only templates."""
    document = yaml.safe_load(definition_of(surface, name))
    meta = document["metadata"]
    notes = meta.pop("annotations", {})
    meta["labels"] = MANAGED
    text = yaml_document(document).replace("{{", '{{ "{{" }}')
    spec = "spec:\n"
    kept = _where(".Values.crds.keep", f"    {KEEP}\n")
    if notes:
        annotations = "  annotations:\n" + "".join(f"    {each}: {notes[each]}\n" for each in notes) + kept
    else:
        annotations = _where(".Values.crds.keep", f"  annotations:\n    {KEEP}\n")
    text = _filled(text).replace(spec, f"{annotations}{spec}", 1)
    is_on = "" if surface.name == KERNEL else f" .Values.surfaces.{surface.name}"
    return _where(f"and .Values.crds.install{is_on}" if is_on else ".Values.crds.install", text)


def _roles(surface: str) -> str:
    return "".join(_role(placed) for placed in placed_roles(surface, EVERYTHING, every_right=True))


def _role(placed: PlacedRole) -> str:
    rules = "".join(map(_rule, placed.rights))
    _, *binding = documents([placed], EVERYTHING)
    text = f"{_text([head(placed)])}rules:\n{rules}{_text(binding)}"
    if not placed.role.option:
        return text
    option = options()[placed.role.option]
    if not option.lists:
        return _where(_condition(option.name), text)
    each = "$namespace, $names" if option.has_names else "$namespace"
    return _block(f"range {each} := {value(option.name)}", text)


def _condition(option: str) -> str:
    return OWN_CERTIFICATE if option == OWN_CERTIFICATES else value(option)


def _rule(right: Right) -> str:
    text = yaml.dump([rule(right)], sort_keys=False)
    if right.option:
        return _where(_condition(right.option), text)
    return _where(f"not {_condition(right.unless)}", text) if right.unless else text


def _viewer(surfaces: Iterable[str], namespaces: Collection[str]) -> str:
    """Return the viewer roles in these namespaces. A surface's namespace exists only if the surface is switched on."""
    roles = [placed for placed in viewer_roles(surfaces, EVERYTHING) if placed.namespace in namespaces]
    return _text(documents(roles, EVERYTHING))


def _apart(surface: str, viewer: str) -> str:
    """Return a surface's viewer roles under names of their own where the release is in the namespace of the surface."""
    for name in (each for each in declared(surface).names if each.is_namespace):
        is_shared = f"eq {value(name.name)} .Release.Namespace"
        own = f"name: {FULLNAME}-viewer{{{{ if {is_shared} }}}}-{surface}{{{{ end }}}}\n"
        viewer = viewer.replace(f"name: {FULLNAME}-viewer\n", own)
    return viewer


def _namespaces(surface: str) -> str:
    """Return the namespaces of a surface. Helm keeps them at an uninstall, because other programs may use them, too."""
    found = []
    for made in namespaces_of(surface, EVERYTHING):
        name = made["metadata"]["name"]
        option = next(each for each, stand_in in STAND_INS.items() if stand_in == name)
        meta = {"name": name, "labels": MANAGED, "annotations": dict([KEEP.split(": ")])}
        text = _text([{**made, "metadata": meta}])
        found.append(_where(f"and .Values.createNamespaces (ne {value(option)} .Release.Namespace)", text))
    return "".join(found)


def _webhooks() -> str:
    """Return the registrations of webhooks and what they share, each where a surface that serves it is on."""
    served = " ".join(f".Values.surfaces.{name}" for name in BUILT_IN if declared(name).webhooks)
    service, *_ = surroundings(NAMESPACE)
    issuer, certificate = list(surroundings(NAMESPACE, certificates="cert-manager"))[1:]
    certificate["metadata"]["name"] = certificate["spec"]["secretName"] = STAND_INS[WEBHOOK_SECRET]
    shared = (
        _text([service])
        .replace(f"targetPort: {PORT}", "targetPort: {{ .Values.ports.webhooks }}")
        .replace(
            "  selector:\n    app.kubernetes.io/name: haulout\n",
            '  selector: {{- include "haulout.selectorLabels" $ | nindent 4 }}\n',
        )
        + _where(
            'eq .Values.webhooks.certificates "self"', _text([certificate_secret(NAMESPACE, STAND_INS[WEBHOOK_SECRET])])
        )
        + _where('eq .Values.webhooks.certificates "cert-manager"', _text([issuer, certificate]))
        + _registrations(declared(KERNEL))
    )
    own = "".join(
        _where(f".Values.surfaces.{name}", _registrations(declared(name)))
        for name in BUILT_IN
        if declared(name).webhooks
    )
    return _where(f"and .Values.webhooks.enabled (or {served})", shared + own)


def _registrations(surface: Surface) -> str:
    text = _text(configurations(surface.webhooks, NAMESPACE))
    port = "      port: 443\n"
    assert port in text
    bundle = _block("with .Values.webhooks.caBundle", "    caBundle: {{ . }}\n")
    annotation = f"    cert-manager.io/inject-ca-from: {NAMESPACE}/{STAND_INS[WEBHOOK_SECRET]}\n"
    injected = _where('eq .Values.webhooks.certificates "cert-manager"', f"  annotations:\n{annotation}")
    return text.replace(port, port + bundle).replace("webhooks:\n", f"{injected}webhooks:\n")


def _settings() -> Iterator[str]:
    """Yield the template of the haulout.yaml: what the values say, and the value `settings` over it."""
    yield '{{- define "haulout.settings" -}}\n'
    yield '{{- $made := dict "log" (dict "format" "json") "surfaces" dict }}\n'
    listen = {"http": "8080", "probes": "8081", "webhooks": "9443"}
    names = {"probes": "health"}
    yield "{{- $listen := dict }}\n"
    for port, usual in listen.items():
        changed = f'{{{{- $_ := set $listen "{names.get(port, port)}" (printf ":%d" (int .Values.ports.{port})) }}}}\n'
        yield _where(f"ne (int .Values.ports.{port}) {usual}", changed)
    yield _where("not .Values.webhooks.enabled", '{{- $_ := set $listen "webhooks" "0" }}\n')
    yield _where("$listen", '{{- $_ := set $made "listen" $listen }}\n')
    yield "{{- $webhooks := dict }}\n"
    yield '{{- $service := printf "%s-webhook" (include "haulout.fullname" .) }}\n'
    yield _where(f'ne $service "{SERVICE}"', '{{- $_ := set $webhooks "service" $service }}\n')
    yield _where(
        'ne .Values.webhooks.certificates "self"',
        '{{- $_ := set $webhooks "certificates" (ternary "cert-manager" "/etc/haulout-webhooks" (eq .Values.webhooks.certificates "cert-manager")) }}\n',
    )
    yield _where("$webhooks", '{{- $_ := set $made "webhooks" $webhooks }}\n')
    for name in declared(KERNEL).names:
        block, _, setting = name.setting.partition(".")
        text = f'{{{{- $_ := set $made "{block}" (merge (dict "{setting}" {value(name.name)}) (default dict (get $made "{block}"))) }}}}\n'
        yield _where(f'ne {value(name.name)} "{name.default}"', text)
    for surface in map(declared, BUILT_IN):
        yield _where(f".Values.surfaces.{surface.name}", "".join(_block_of(surface)))
    yield "{{- range .Values.foreignSurfaces }}\n{{- $_ := set $made.surfaces . dict }}\n{{- end }}\n"
    yield "{{- toYaml (mergeOverwrite $made (deepCopy (default dict .Values.settings))) }}\n"
    yield "{{- end }}\n"


def _files() -> Iterator[str]:
    """Yield the templates that name the surfaces with a configuration file, for templates that are written by hand."""
    named = {name: file.name for name in BUILT_IN if (file := declared(name).config_file) is not None}
    yield f'{{{{- define "haulout.surfacesWithFiles" -}}}}\n{json.dumps(list(named))}\n{{{{- end }}}}\n'
    yield f'{{{{- define "haulout.configFiles" -}}}}\n{json.dumps(named)}\n{{{{- end }}}}\n'


def _block_of(surface: Surface) -> Iterator[str]:
    yield "{{- $block := dict }}\n"
    if (file := surface.config_file) is not None:
        yield f'{{{{- $_ := set $block "{file.setting}" "{FOLDER}/{surface.name}/{file.name}" }}}}\n'
    for option in surface.options:
        if option.setting:
            setting, word = _setting(option)
            yield _where(value(option.name), f'{{{{- $_ := set $block "{setting}" {word} }}}}\n')
    for name in surface.names:
        text = f'{{{{- $_ := set $block "{_last(name)}" {value(name.name)} }}}}\n'
        yield _where(f'ne {value(name.name)} "{name.default}"', text)
    yield f'{{{{- $_ := set $made.surfaces "{surface.name}" $block }}}}\n'


def _setting(option: Option) -> tuple[str, str]:
    """Return the setting that an option switches on, and its value as it is written in a template."""
    ((name, word),) = yaml.safe_load(option.setting).items()
    return name, f'"{word}"' if isinstance(word, str) else str(word).lower()


def _last(name: Name) -> str:
    return name.setting.rpartition(".")[2]


def _checks() -> Iterator[str]:
    """Yield the template that refuses values that contradict each other, as far as the surfaces' declarations say so."""
    yield '{{- define "haulout.surfaceChecks" -}}\n'
    yield "{{- $settings := default dict .Values.settings }}\n"
    for surface in map(declared, BUILT_IN):
        given = f'hasKey (dig "surfaces" dict $settings) "{surface.name}"'
        yield _refused(
            f"and (not .Values.surfaces.{surface.name}) ({given})",
            f"settings.surfaces.{surface.name} is set, but the surface is off: set surfaces.{surface.name}: true as well",
        )
        for option in surface.options:
            yield _refused(
                f"and (not .Values.surfaces.{surface.name}) {value(option.name)}",
                f"{key(option.name)} has no effect without its surface: set surfaces.{surface.name}: true, or leave it out",
            )
            if option.setting:
                setting, word = _setting(option)
                set_to = f'eq (toString (dig "surfaces" "{surface.name}" "{setting}" "" $settings)) (toString {word})'
                yield _refused(
                    f"and (not {value(option.name)}) ({set_to})",
                    f"settings.surfaces.{surface.name}.{setting} needs rights: set {key(option.name)}: true instead, which grants them and writes the setting",
                )
        if (file := surface.config_file) is not None:
            yield _refused(
                f'dig "surfaces" "{surface.name}" "{file.setting}" "" $settings',
                f"settings.surfaces.{surface.name}.{file.setting}: leave it out, because the file is mounted where the operator looks for it; its content goes into {surface.name}.config or {surface.name}.configSecret",
            )
            yield _refused(
                f"and .Values.{surface.name}.config .Values.{surface.name}.configSecret",
                f"{surface.name}.config and {surface.name}.configSecret exclude each other: leave one of them out",
            )
            yield _refused(
                f"and (not .Values.surfaces.{surface.name}) (or .Values.{surface.name}.config .Values.{surface.name}.configSecret)",
                f"{surface.name} has a configuration file, but the surface is off: set surfaces.{surface.name}: true as well",
            )
    yield '{{- range $name, $_ := dig "surfaces" dict $settings }}\n'
    ours = " ".join(f'"{name}"' for name in BUILT_IN)
    yield f"{{{{- if not (or (has $name (list {ours})) (has $name $.Values.foreignSurfaces)) }}}}\n"
    known = ", ".join(BUILT_IN)
    yield f'{{{{- fail (printf "settings.surfaces.%s: there is no such surface (there are {known}); name a surface of another package in foreignSurfaces" $name) }}}}\n'
    yield "{{- end }}\n{{- end }}\n"
    for name in chosen_names():
        path = " ".join(f'"{word}"' for word in name.setting.split("."))
        yield _refused(
            f'dig {path} "" $settings',
            f"settings.{name.setting}: set {key(name.name)} instead, because roles need the name, too",
        )
    spaces = [each for each in chosen_names() if each.is_namespace]
    for one, other in itertools.combinations(spaces, 2):
        yield _refused(
            f"eq {value(one.name)} {value(other.name)}", f"{key(one.name)} and {key(other.name)} must differ"
        )
    yield _refused(
        "and .Values.limitRange (not .Values.surfaces.packages)",
        "limitRange is for the namespace of packages: set surfaces.packages: true, or leave it out",
    )
    some = " ".join(f".Values.surfaces.{name}" for name in BUILT_IN)
    yield _refused(
        f"not (or {some} .Values.foreignSurfaces)",
        f"no surface is on: set one of surfaces.{', surfaces.'.join(BUILT_IN)} to true",
    )
    yield "{{- end }}\n"


def _refused(condition: str, sentence: str) -> str:
    return _where(condition, f'{{{{- fail "{sentence}" }}}}\n')


def _text(made: Iterable[Json]) -> str:
    return "".join(yaml_document(_renamed(each)) for each in made)


def _renamed(document: Json) -> Json:
    """Return an object of ours under a name that begins with the release's, and with such references."""
    if document["kind"].endswith("WebhookConfiguration"):
        hooks = [_served_by_release(each) for each in document["webhooks"]]
        return {**document, "webhooks": hooks}
    if document["kind"] == "Certificate":
        spec = document["spec"]
        hosts = [
            name.replace(f"{SERVICE}.", f"{FULLNAME}-{SERVICE.removeprefix(OWN_NAME)}.") for name in spec["dnsNames"]
        ]
        return {**document, "spec": {**spec, "dnsNames": hosts, "issuerRef": _with_name(spec["issuerRef"])}}
    if document["kind"] not in NAMED_BY_RELEASE:
        return document
    found = {**document, "metadata": _with_name(document["metadata"])}
    if "roleRef" in document:
        found["roleRef"] = _with_name(document["roleRef"])
    return found


def _served_by_release(hook: Json) -> Json:
    service = _with_name(hook["clientConfig"]["service"])
    return {**hook, "clientConfig": {"service": service}}


def _with_name(named: Json) -> Json:
    name: str = named["name"]
    return {**named, "name": name.replace(OWN_NAME, f"{FULLNAME}-", 1) if name.startswith(OWN_NAME) else name}


def _filled(text: str) -> str:
    for stand_in, place in PLACES.items():
        text = text.replace(stand_in, place)
    return text


def _where(condition: str, text: str) -> str:
    return _block(f"if {condition}", text)


def _block(words: str, text: str) -> str:
    return f"{{{{- {words} }}}}\n{text}{{{{- end }}}}\n"
