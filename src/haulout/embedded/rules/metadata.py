"""Checks of an object's metadata: name, labels, annotations, finalizers and owner references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from haulout.embedded.interfaces import Json
from haulout.embedded.rules.refusals import Problem, forbidden_field, missing, wrong

NameRule = Callable[[str], tuple[str, ...]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile("[-._a-zA-Z0-9]+").fullmatch

_MAX_ANNOTATIONS = 256 * 1024
# Finalizers that namespaces and garbage collection set themselves.
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def _regex(text: str, pattern: str, *examples: str) -> str:
    quoted = " or ".join(f"'{example}', " for example in examples).removesuffix(", ")
    return f"{text} (e.g. {quoted}, regex used for validation is '{pattern}')"


def _too_long(length: int, unit: str = "characters") -> str:
    """Return the message for a text that is too long, counted in this unit."""
    return f"must be no more than {length} {unit}"


@lru_cache(65536)
def subdomain(name: str) -> tuple[str, ...]:
    problems = [_too_long(253)] if len(name) > 253 else []
    if not _is_subdomain(name):
        text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        problems.append(_regex(text, _SUBDOMAIN, "example.com"))
    return tuple(problems)


@lru_cache(65536)
def label(name: str) -> tuple[str, ...]:
    problems = [_too_long(63)] if len(name) > 63 else []
    if not _is_label(name):
        text = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
        problems.append(_regex(text, _LABEL, "my-name", "123-abc"))
    return tuple(problems)


@lru_cache(4096)
def path_segment(name: str) -> tuple[str, ...]:
    """Return why a name cannot be a path segment. Roles have this rule alone; every other name has it too."""
    if name in {".", ".."}:
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{sign}'" for sign in "/%" if sign in name)


_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


@lru_cache(65536)
def label_key(key: str) -> tuple[str, ...]:
    parts = key.split("/")
    problems = []
    if len(parts) > 2:
        regex = _regex(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        return (f"a valid label key {regex} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        problems += [f"prefix part {text}" for text in subdomain(parts[0]) if parts[0]]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_too_long(63, 'bytes')}")
    if not _is_key(name):
        problems.append(f"name part {_regex(_KEY_TEXT, _KEY, 'MyName', 'my.name', '123-abc')}")
    return tuple(problems)


@lru_cache(65536)
def label_value(value: str) -> tuple[str, ...]:
    problems = [_too_long(63, "bytes")] if len(value) > 63 else []
    if not _is_value(value):
        text = f"a valid label must be an empty string or {_KEY_TEXT.removeprefix('must ')}"
        problems.append(_regex(text, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(problems)


@lru_cache(4096)
def config_key(key: str) -> tuple[str, ...]:
    problems = [_too_long(253)] if len(key) > 253 else []
    if not _is_config_key(key):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(_regex(text, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    elif key == "." or key.startswith(".."):
        problems.append(f"must not be '{key}'" if key in {".", ".."} else "must not start with '..'")
    return tuple(problems)


def check_labels(labels: Mapping[str, str], path: str) -> list[Problem]:
    problems: list[Problem] = []
    for key, value in labels.items():
        if texts := label_key(key):
            problems += [wrong(path, key, text) for text in texts]
        if texts := label_value(value):
            problems += [wrong(path, value, text) for text in texts]
    return problems


def check_annotations(annotations: Mapping[str, str], path: str) -> list[Problem]:
    problems: list[Problem] = []
    size = 0
    for key, value in annotations.items():
        if texts := label_key(key.lower()):
            problems += [wrong(path, key, text) for text in texts]
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        problems.append(Problem("FieldValueTooLong", path, f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"))
    return problems


def check_finalizers(finalizers: Iterable[str], path: str, *, qualified: bool) -> list[Problem]:
    """Check finalizers. `qualified`: each name needs a domain, as on built-in kinds."""
    problems = []
    for index, name in enumerate(finalizers):
        texts = label_key(name)
        problems += [wrong(path, name, text) for text in texts]
        if qualified and "/" not in name and name not in STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            problems.append(wrong(f"{path}[{index}]", name, text))
    both = {"orphan", "foregroundDeletion"}
    if both <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        problems.append(wrong(path, list(finalizers), text))
    return problems


def check_owners(owners: Iterable[Json], path: str) -> list[Problem]:
    problems, controller = [], ""
    for owner in owners:
        if not str(owner.get("apiVersion", "")).rpartition("/")[2]:
            problems.append(wrong(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
        for member in ("kind", "name", "uid"):
            if not owner.get(member):
                problems.append(wrong(f"{path}.{member}", "", "must not be empty"))
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            problems.append(wrong(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            name = f"{owner['kind']}/{owner['name']}"
            if controller:
                text = f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {name}'
                problems.append(wrong(path, list(owners), text))
            controller = controller or name
    return problems


def check_new(meta: Json, rule: NameRule, *, qualified: bool) -> list[Problem]:
    """Check the metadata of an object to create, whose name has already been generated."""
    problems = []
    prefix = meta.get("generateName")
    # The generated suffix may end with a character with which the prefix must not end.
    if prefix and (texts := rule(prefix.rstrip("-") or prefix)):
        problems += [wrong("metadata.generateName", prefix, text) for text in texts]
    name = meta.get("name", "")
    if not name:
        problems.append(missing("metadata.name", "name or generateName is required"))
    elif texts := rule(name):
        problems += [wrong("metadata.name", name, text) for text in texts]
    return problems + _content(meta, _NOTHING) + _finalizers(meta, _NOTHING, qualified=qualified)


_NOTHING: Mapping[str, Any] = {}


def _content(meta: Json, before: Mapping[str, Any]) -> list[Problem]:
    """Check labels, annotations and owners, if they are not the same objects as before."""
    problems: list[Problem] = []
    if (labels := meta.get("labels")) and labels is not before.get("labels"):
        problems += check_labels(labels, "metadata.labels")
    if (annotations := meta.get("annotations")) and annotations is not before.get("annotations"):
        problems += check_annotations(annotations, "metadata.annotations")
    if (owners := meta.get("ownerReferences")) and owners is not before.get("ownerReferences"):
        problems += check_owners(owners, "metadata.ownerReferences")
    return problems


def _finalizers(meta: Json, before: Mapping[str, Any], *, qualified: bool) -> list[Problem]:
    finalizers = meta.get("finalizers")
    if not finalizers or finalizers is before.get("finalizers"):
        return []
    return check_finalizers(finalizers, "metadata.finalizers", qualified=qualified)


_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def check_changed(meta: Json, old: Json, *, custom: bool) -> list[Problem]:
    """Check changed metadata. The real server checks some parts more than once and repeats their problems."""
    problems = []
    if "deletionTimestamp" in old and (wanted := meta.get("finalizers")):
        extra = sorted(set(wanted) - set(old.get("finalizers", ())))
        if extra:
            quoted = ", ".join(f'"{name}"' for name in extra)
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{quoted}}}"
            problems.append(forbidden_field("metadata.finalizers", text))
    for member in _FIXED:
        if meta.get(member) != old.get(member):
            problems.append(wrong(f"metadata.{member}", meta.get(member), "field is immutable"))
    finalizers, content = _finalizers(meta, old, qualified=not custom), _content(meta, old)
    if not (problems or finalizers or content):
        return problems
    return problems * 2 + finalizers * (1 if custom else 2) + content * (3 if custom else 4)
