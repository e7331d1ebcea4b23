"""The declaration of a surface: data that is read before it is served, and the paths of what is imported then.

See decision 0062.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from haulout.core.act import Act
from haulout.core.archive import Archived
from haulout.core.metric import Metric
from haulout.core.remains import Remains
from haulout.core.rights import Name, Option, Role

__all__ = [
    "ConfigFile",
    "Explained",
    "Flag",
    "Lint",
    "NodeLabel",
    "NodeSign",
    "Original",
    "Registration",
    "Surface",
    "Variable",
]


class Flag(msgspec.Struct, frozen=True):
    """A flag of an original program.

    `word`: the placeholder that the help prints for its value.
    `sets`: the field of `haulout.settings.settings.Settings` that it sets, with dots; a first word `surface` means the
    settings of the surface. Empty: the flag is accepted and has no effect.
    `form`: how the value is written there, such as `:{}`.
    """

    name: str
    default: Any
    help: str
    word: str = "string"
    sets: str = ""
    form: str = ""

    @property
    def is_bool(self) -> bool:
        return isinstance(self.default, bool)


class Variable(msgspec.Struct, frozen=True):
    """An environment variable that an original reads and that has no flag."""

    name: str
    default: str
    help: str


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The program that a surface can replace, as `haulout as NAME`.

    `name`: the name by which charts start it. `program`: the name in its usage. `lease`: its leader election Lease.
    `flags`: its own flags, beside those for logs and those that the settings of the surface have.
    `log_times`: how it writes instants in logs, in zap's words.
    `environment`: variables that win over the flag of this name, or over the setting `surface.NAME`, where that is not
    given.
    `fixed`: fields of `Settings` that differ from those of `haulout run`; `lease.` begins those of the leader election.
    `settings`: settings of the surface that differ from their defaults in `haulout.yaml`.
    `pods`: the label selector of the pods of its Deployment.
    `commands`: first words that are commands of their own, with the paths of the functions that take the other words.
    `starts`: path of the function that makes the settings from the command line, where they do not follow from flags.
    Each setting of the surface is then an environment variable, and `variables` are those beside them.
    """

    name: str
    lease: str
    program: str = ""
    flags: tuple[Flag, ...] = ()
    log_times: str = "iso8601"
    environment: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    pods: str = ""
    commands: Mapping[str, str] = {}
    starts: str = ""
    variables: tuple[Variable, ...] = ()


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The registration of a surface's admission webhook with the API server.

    `configuration`: the name of the webhook configuration. `mutating` decides its kind.
    `rules`: the writes that the webhook reviews, as the API has it. `conditions`: which of them, as CEL expressions.
    `fails_open`: a write goes on if the webhook does not answer.
    """

    configuration: str
    name: str
    path: str
    rules: tuple[dict[str, Any], ...]
    mutating: bool = False
    timeout_seconds: int = 15
    fails_open: bool = False
    conditions: tuple[dict[str, Any], ...] = ()


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration file of a surface that an installation mounts, and the setting that names its path."""

    name: str
    setting: str = "config"


class NodeSign(msgspec.Struct, frozen=True, kw_only=True):
    """A label, taint or annotation by which a Node shows that a surface claims it, for `uncordon` and `bundle`.

    One of `label`, `taint` and `annotation` is set. `value`: the value that the label must have.
    `is_prefix`: every annotation whose name begins with `annotation` is a sign.
    `text`: what the sign means, for people; `{}` is the rest of the annotation's name.
    `orphan`: path of a function from the node's key to a `Reason`, which says what to do about a sign whose object does
    not exist. The first kind of `Surface.archive` has these objects.
    """

    text: str
    label: str = ""
    value: str = ""
    taint: str = ""
    annotation: str = ""
    is_prefix: bool = False
    orphan: str = ""


class NodeLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A label that puts a Node under a surface, and the option of `haulout plan` that sets it on every node.

    `names`: path of a function that returns the names in a value of the label.
    `known`: path of a function that returns the names that are allowed, from the surface's options.
    `waiting`: the label and value of a node that waits before the surface claims it.
    """

    option: str
    help: str
    label: str
    names: str
    known: str
    waiting: tuple[str, str] = ("", "")


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A kind whose objects `haulout explain KIND NAME` can explain.

    `words`: every name that kubectl has for the kind; the first one is printed.
    `is_namespaced`: an object is named NAMESPACE/NAME, or with -n.
    `command`: path of a function that explains an object by itself, where one picture of a cluster is not enough. It is
    called with the name, the configuration, the form of the output and the options of the cluster.
    `document`: path of the struct that the command prints as JSON, where it is not that of other objects.
    `picture`: path of a function that makes this document from one picture of a cluster, for the console, where `command`
    explains. It is called with the view, the key, the instant and whether an operator leads, and returns None if there is no
    such object. Without it, the console cannot explain the kind.
    """

    kind: str
    words: tuple[str, ...]
    is_namespaced: bool = False
    command: str = ""
    document: str = ""
    picture: str = ""


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of configuration file of a surface, for `haulout lint`.

    `stem`: the usual name of the file, without its ending. It decides where the content does not show the kind.
    `keys`: keys at the top of the file. Each of them shows the kind.
    `recognizes`: path of a function that says whether a parsed file is of this kind. Empty: keys alone decide.
    `check`: path of a function from the content, `source` and `environment` to a list of
    `haulout.plugins.file_lint.Problem`.
    `schema`: path of a function that returns the JSON schema of the file, for `haulout schema`.
    `takes_rest`: a file that no surface recognizes is taken for one of this kind.
    """

    stem: str
    check: str
    keys: tuple[str, ...] = ()
    recognizes: str = ""
    schema: str = ""
    takes_rest: bool = False


class ObjectProblem(msgspec.Struct, frozen=True):
    """One problem of an object in a manifest. `path`: the field that it is about; empty for the whole object."""

    what: str
    path: tuple[str, ...] = ("spec",)
    is_error: bool = True


class ObjectLint(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of objects that `haulout lint` checks beyond the schema of its definition.

    `check`: path of a function from the name and the spec, as plain values that fit the schema, to its `ObjectProblem`s.
    """

    group: str
    kind: str
    check: str


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """A surface, declared in `declare.py` of its folder as `SURFACE`.

    Paths are `module:name`. What they name is imported when the surface is served, explained or planned.

    `package`: the folder of the surface as a Python package, `__package__` of its declare.py.
    `summary`: what the surface does, in one line for people.
    `settings`: its block in `haulout.yaml`, which is also what its decisions read. None: it cannot be served yet.
    `reporter`: the name of the controller by which it reports its events, which is that of its original.
    `quoting_events`: the reasons of its events whose messages quote users' programs, so that a support archive leaves
    them out.
    `within`: the surface whose block holds this one's, under this one's name and with a field `enabled`.
    `programs`: other programs that belong to the original, by their names, each with the path of the function that takes
    the words of its command line.
    `decisions`: path of its `Declaration`. `part`: path of the `Part` that serves it in a process.
    `crds`: the CustomResourceDefinitions that it brings, by the names of the files in `crds` in its package.
    `metrics`: its own metrics, beside those of the kernel.
    `archive`: its kinds whose objects belong in a support archive.
    `kept_annotations`: the annotations whose values a support archive may contain.
    `kept_settings`: keys of its own configuration files whose texts are names, rules or instants, so that a support
    archive may contain them.
    `reasons`: path of the meanings of its reason codes. `signs`: the signs by which Nodes show that it claims them.
    `remains`: what it leaves in a cluster when it no longer runs, beside what it is installed by.
    `node_label`: the label that puts a Node under it, where it has one.
    `waiting_labels`: the prefix of the labels by which a Node shows that it waits before the surface claims it, and the
    values that say so.
    `lint`: its own kinds of configuration files. `object_lint`: the rules of its objects in manifests, beyond the schemas
    of its definitions. `explains`: its kinds that can be explained.
    `acts`: what people may do to its objects, or to nodes by it.
    `plugins`: path of a function that returns a page about the plugins that it runs, line by line, for
    `haulout plugins`.
    `quorum_setting`: a boolean setting. If it is true, etcd's quorum is kept by every surface.
    `roles`, `options`, `names`: the rights that it needs, and the choices of an installation that change them.
    `workload_roles`: the rights that it needs in workload clusters.
    `tells_in_group`: the role of its original allows events about the operator in events.k8s.io, not in the core group.
    `is_installed_by_name`: `haulout manifests` prints it only where it is named.
    """

    name: str
    package: str
    summary: str
    reporter: str = ""
    quoting_events: frozenset[str] = frozenset()
    settings: type[msgspec.Struct] | None = None
    within: str = ""
    decisions: str = ""
    part: str = ""
    original: Original | None = None
    programs: Mapping[str, str] = {}
    crds: tuple[str, ...] = ()
    webhooks: tuple[Registration, ...] = ()
    metrics: tuple[Metric, ...] = ()
    archive: tuple[Archived, ...] = ()
    kept_annotations: tuple[str, ...] = ()
    kept_settings: tuple[str, ...] = ()
    reasons: str = ""
    signs: tuple[NodeSign, ...] = ()
    remains: Remains = Remains()
    node_label: NodeLabel | None = None
    waiting_labels: tuple[str, frozenset[str]] = ("", frozenset())
    lint: tuple[Lint, ...] = ()
    object_lint: tuple[ObjectLint, ...] = ()
    explains: tuple[Explained, ...] = ()
    acts: tuple[Act, ...] = ()
    plugins: str = ""
    quorum_setting: str = ""
    roles: tuple[Role, ...] = ()
    options: tuple[Option, ...] = ()
    names: tuple[Name, ...] = ()
    workload_roles: tuple[Role, ...] = ()
    config_file: ConfigFile | None = None
    tells_in_group: bool = False
    is_installed_by_name: bool = False

    def definition(self, name: str) -> str:
        """Return the YAML of one of the surface's CustomResourceDefinitions."""
        from importlib import resources

        return (resources.files(self.package) / "crds" / f"{name}.yaml").read_text()
