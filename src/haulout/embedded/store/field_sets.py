"""Which fields an object has, how two objects differ, and how one is applied over the other, as server-side apply sees it.

A field is a path: the members of Kubernetes' FieldsV1 from the top, such as `("f:spec", 'k:{"name":"web"}', "f:image")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from haulout.base.patch import same
from haulout.embedded.interfaces import Json
from haulout.embedded.rules.fields import fields_of, is_struct

Path = tuple[str, ...]
# The own value of a list item that is merged by its key: that it exists.
ITEM = "<item>"


class Shape(NamedTuple):
    """How values at a place are merged.

    `member`: returns the shape of a member of an object. `item`: returns the shape of a list item.
    `keys`: what identifies a list item: its members of these names; none, the item itself; None: the list is one value.
    `is_atomic`: the object is one value.
    """

    member: Callable[[str], Shape]
    item: Callable[[], Shape]
    keys: tuple[str, ...] | None = None
    is_atomic: bool = False


def _plain_member(_: str) -> Shape:
    return PLAIN


def _plain_item() -> Shape:
    return PLAIN


# Values whose type is not known: objects are merged, lists are replaced.
PLAIN = Shape(_plain_member, _plain_item)
# The structs and maps that the API declares as one value.
_ATOMIC = frozenset(
    {
        *("meta.LabelSelector", "meta.OwnerReference", "LabelSelector", "OwnerReference", "ObjectReference"),
        *("LocalObjectReference", "TypedLocalObjectReference", "SecretReference", "SecretKeySelector"),
        *("ConfigMapKeySelector", "ObjectFieldSelector", "ResourceFieldSelector", "NodeSelector", "NodeSelectorTerm"),
    }
)
_ATOMIC_MEMBERS = frozenset(
    {("PodSpec", "nodeSelector"), ("ServiceSpec", "selector"), ("rbac.ClusterRoleBinding", "roleRef")}
)
_ATOMIC_LISTS = frozenset({("PodSpec", "tolerations")})
# Lists whose items have more keys than strategic merge patches know.
_KEYS = {
    "ContainerPort": ("containerPort", "protocol"),
    "ServicePort": ("port", "protocol"),
    "TopologySpreadConstraint": ("topologyKey", "whenUnsatisfiable"),
}
_DEFAULTS = {"protocol": "TCP"}


@lru_cache(None)
def go_shape(type_name: str) -> Shape:
    """Return the shape of values of a Go type."""
    base = type_name.partition(":")[0]
    if base.startswith("{}"):
        return Shape(lambda _: go_shape(base[2:]), _plain_item)
    if not is_struct(base):
        return PLAIN
    return Shape(lambda name: _member_of(base, name), _plain_item, is_atomic=base in _ATOMIC)


@lru_cache(None)
def _member_of(struct: str, name: str) -> Shape:
    field = fields_of(struct).get(name)
    if field is None:
        return PLAIN
    base = field.type.partition(":")[0]
    if (struct.rpartition(".")[2], name) in _ATOMIC_MEMBERS:
        return PLAIN._replace(is_atomic=True)
    if not base.startswith("[]"):
        return go_shape(base)
    item = base[2:]
    keys: tuple[str, ...] | None = _KEYS.get(item)
    if keys is None and field.merge_key is not None and (struct, name) not in _ATOMIC_LISTS:
        keys = (field.merge_key,) if field.merge_key else ()
    return Shape(_plain_member, lambda: go_shape(item)._replace(is_atomic=False), keys)


def schema_shape(schema: Mapping[str, Any]) -> Shape:
    """Return the shape of values of a structural schema, which custom kinds have."""

    def member(name: str) -> Shape:
        properties = schema.get("properties") or {}
        found = properties.get(name, schema.get("additionalProperties"))
        return schema_shape(found) if isinstance(found, dict) else PLAIN

    def item() -> Shape:
        found = schema.get("items")
        return schema_shape(found) if isinstance(found, dict) else PLAIN

    keys = {"map": tuple(schema.get("x-kubernetes-list-map-keys") or ()), "set": ()}
    kept = keys.get(str(schema.get("x-kubernetes-list-type")))
    return Shape(member, item, kept, schema.get("x-kubernetes-map-type") == "atomic")


def shape_of(type_name: str, schema: Mapping[str, Any]) -> Shape:
    """Return the shape of objects of a kind: of a Go type, or of a custom kind with this schema."""
    if type_name:
        return go_shape(type_name)
    spec = schema_shape(schema)
    metadata = go_shape("meta.ObjectMeta")
    return Shape(lambda name: metadata if name == "metadata" else spec.member(name), _plain_item)


def fields(shape: Shape, value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of a value, each with its own value. An item of a merged list is a field, too."""
    if isinstance(value, dict) and value and not shape.is_atomic:
        for name, part in value.items():
            yield from fields(shape.member(name), part, (*path, f"f:{name}"))
    elif isinstance(value, list) and shape.keys is not None:
        for item in value:
            place = (*path, _element(shape, item))
            yield place, ITEM
            if isinstance(item, dict) and item:
                yield from fields(shape.item(), item, place)
    elif path:
        yield path, value


def changes(shape: Shape, old: Any, new: Any) -> tuple[set[Path], set[Path]]:
    """Return the fields that are new or have another value, and those that are gone."""
    before, after = dict(fields(shape, old)), dict(fields(shape, new))
    missing = object()
    changed = {path for path, value in after.items() if not _equal(before.get(path, missing), value)}
    return changed, before.keys() - after.keys()


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(same(one, other))


def _element(shape: Shape, item: Any) -> str:
    if shape.keys and isinstance(item, dict):
        key = {name: item.get(name, _DEFAULTS.get(name)) for name in shape.keys}
        return "k:" + msgspec.json.encode(key, order="deterministic").decode()
    return "v:" + msgspec.json.encode(item, order="deterministic").decode()


def apply_config(shape: Shape, live: Any, config: Any) -> Any:
    """Return the live value with the configuration applied over it."""
    if isinstance(live, dict) and isinstance(config, dict) and not shape.is_atomic:
        result = dict(live)
        for name, part in config.items():
            result[name] = apply_config(shape.member(name), live[name], part) if name in live else part
        return result
    if isinstance(live, list) and isinstance(config, list) and shape.keys is not None:
        return _applied_list(shape, live, config)
    return config


def _applied_list(shape: Shape, live: Sequence[Any], config: Sequence[Any]) -> list[Any]:
    """Return the items of both lists in the order of the configuration. Others stay behind what they followed."""
    mine = {_element(shape, item): item for item in config}
    present = {_element(shape, item): item for item in live}
    shared = [key for key in mine if key in present]
    left, right = list(present), list(mine)
    result: list[Any] = []
    while left or right:
        if left and left[0] not in mine:
            result.append(present[left.pop(0)])
        elif left and right and left[0] != right[0] and left[0] != next(iter(shared), None):
            # Its place is where the configuration has it.
            left.pop(0)
        elif right:
            key = right.pop(0)
            result.append(apply_config(shape.item(), present[key], mine[key]) if key in present else mine[key])
            shared = [other for other in shared if other != key]
            left = left[1:] if left and left[0] == key else left
        else:
            left.pop(0)
    return result


def without(shape: Shape, value: Any, removed: Iterable[Path]) -> Any:
    """Return the value without these fields. An object that loses its last field goes, too."""
    gone = set(removed)
    kept = _without(shape, value, gone, ()) if gone else value
    return {} if kept is _GONE else kept


_GONE = object()


def _without(shape: Shape, value: Any, gone: set[Path], path: Path) -> Any:
    if path in gone:
        return _GONE
    if isinstance(value, dict) and value and not shape.is_atomic:
        parts = {name: _without(shape.member(name), part, gone, (*path, f"f:{name}")) for name, part in value.items()}
        kept = {name: part for name, part in parts.items() if part is not _GONE}
        return kept if kept or not path else _GONE
    if isinstance(value, list) and shape.keys is not None:
        return _without_items(shape, value, gone, path)
    return value


def _without_items(shape: Shape, value: Sequence[Any], gone: set[Path], path: Path) -> Any:
    kept = []
    for item in value:
        place = (*path, _element(shape, item))
        if place in gone:
            continue
        part = _without(shape.item(), item, gone, place) if isinstance(item, dict) else item
        if part is not _GONE:
            kept.append(part)
    return kept if kept or not value else _GONE


def fields_v1(paths: Iterable[Path]) -> Json:
    """Return fields in the form of FieldsV1."""
    result: Json = {}
    for path in sorted(paths):
        place = result
        for element in path:
            place = place.setdefault(element, {})
        if path[-1][:2] in {"k:", "v:"}:
            # That the item itself belongs to the set, beside its members.
            place["."] = {}
    return _tidied(result)


def _tidied(part: Json) -> Json:
    """Return FieldsV1 in which an item without members is an empty object, as the real server writes it."""
    return {name: {} if set(inner) == {"."} else _tidied(inner) for name, inner in part.items()}


def paths_of(written: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the fields of a FieldsV1. What has another form is left out."""
    if not isinstance(written, dict):
        return
    if path and (not written or ("." in written and path[-1][:2] in {"k:", "v:"})):
        yield path
    for name, inner in written.items():
        if isinstance(name, str) and name[:2] in {"f:", "k:", "v:"}:
            yield from paths_of(inner, (*path, name))


def field_in_words(path: Path) -> str:
    """Return a field as conflicts name it, such as `.spec.containers[name="web"].image`."""
    return "".join(map(_shown_element, path))


def _shown_element(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    key = msgspec.json.decode(text)
    return "[" + ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in sorted(key.items())) + "]"
