"""What a caller may see of an answer that was worked out for all, and the answer without the rest. All of it is pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec

from haulout.cluster.project import RESOURCES, Resource
from haulout.console.callers import Question
from haulout.explain.kinds import kinds

NODES = Question("list", "", "nodes")
PODS = Question("list", "", "pods")
PDBS = Question("list", "policy", "poddisruptionbudgets")
BUDGETS = Question("list", "haulout.dev", "nodedisruptionbudgets")
RECORDS = Question("list", "haulout.dev", "maintenancerecords")
# Other words by which texts name an object of a kind.
ALSO = {"NodeDisruptionBudget": ("budget",)}
# A name with its namespace, as texts have it, and the namespace of a command.
_PLACES = re.compile(r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/(?=[a-z0-9])|(?:-n|--namespace)[ =]([a-z0-9-]+)")


class Sight(msgspec.Struct, frozen=True):
    """What a caller may see.

    `denied`: the kinds that the caller may not list, each with its resource.
    `pods`: the namespaces whose pods the caller may list; None: all. `budgets`: the same of PodDisruptionBudgets.
    """

    denied: tuple[tuple[str, str], ...] = ()
    pods: frozenset[str] | None = None
    budgets: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the caller may see everything."""
        return not self.denied and self.pods is None and self.budgets is None

    def may_list(self, kind: str) -> bool:
        return all(kind != each for each, _ in self.denied)


def kind_questions(names: Iterable[str], brought: Iterable[Resource]) -> dict[str, Question]:
    """Return the right to list each of the kinds, except pods and PodDisruptionBudgets, which are asked by namespace."""
    known = {**RESOURCES, **{each.kind: each for each in brought}}
    found = {}
    for kind in names:
        resource = known.get(kind.partition("/")[0])
        if resource is not None and resource.kind not in ("Pod", "PodDisruptionBudget"):
            found[resource.kind] = Question("list", group_of(resource), resource.plural)
    return found


def group_of(resource: Resource) -> str:
    group, slash, _ = resource.api_version.partition("/")
    return group if slash else ""


def within(question: Question, namespace: str) -> Question:
    return msgspec.structs.replace(question, namespace=namespace)


def namespaces_in(document: Any) -> set[str]:
    """Return everything in the texts of a document that may be a namespace."""
    return {name for text in _texts(document) for name in _places(text)}


def visible_part(document: Any, sight: Sight) -> Any:
    """Return a document of plain values as a caller may see it. Texts that name what is hidden say which right is missing."""
    if sight.is_whole:
        return document
    return _mapped(document, _veil(sight))


def hidden_pod(namespace: str) -> str:
    return f"a pod that you may not read: needs list pods in {namespace}"


@lru_cache(maxsize=64)
def _veil(sight: Sight) -> Callable[[str], str]:
    words = {word: (kind, resource) for kind, resource in sight.denied for word in (kind.lower(), *ALSO.get(kind, ()))}
    named = re.compile(rf"\b({'|'.join(map(re.escape, words))})(?=[ /])", re.IGNORECASE) if words else None

    def veil(text: str) -> str:
        if named is not None and (found := named.search(text)):
            kind, resource = words[found[1].lower()]
            return f"a {kind} that you may not read: needs list {resource}"
        places = sorted({*_places(text)})
        # A namespace of which the rights have not been asked yet counts as one that the caller may not read.
        if sight.pods is not None:
            for place in places:
                if place not in sight.pods:
                    return hidden_pod(place)
        if sight.budgets is not None and "disruptionbudget" in text.lower():
            for place in places:
                if place not in sight.budgets:
                    return f"a PodDisruptionBudget that you may not read: needs list poddisruptionbudgets in {place}"
        return text

    return veil


def _places(text: str) -> Iterator[str]:
    yield from (name for found in _PLACES.finditer(text) if (name := found[1] or found[2]) not in _kind_words())


@cache
def _kind_words() -> frozenset[str]:
    """Return the words before a slash that are kinds, not namespaces."""
    named = {word for kind in RESOURCES.values() for word in (kind.kind.lower(), kind.plural)}
    explained = {word.lower() for word in kinds()}
    return frozenset({*named, *explained, "deploy", "sts", "ds", "rs", "job", "cronjob", "lease", "po", "pdb"})


def _texts(document: Any) -> Iterator[str]:
    match document:
        case str():
            yield document
        case Mapping():
            for name, value in document.items():
                if name != "labels":
                    yield from _texts(value)
        case Collection():
            for value in document:
                yield from _texts(value)


def _mapped(document: Any, veil: Callable[[str], str]) -> Any:
    match document:
        case str():
            return veil(document)
        case Mapping():
            # The labels of Nodes are theirs, and some have a form that looks like a name.
            return {name: value if name == "labels" else _mapped(value, veil) for name, value in document.items()}
        case list() | tuple():
            return [_mapped(value, veil) for value in document]
        case _:
            return document
