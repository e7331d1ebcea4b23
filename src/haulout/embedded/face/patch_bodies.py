"""The bodies of patch requests, decoded into functions that change an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from haulout.base import patch as json_patches
from haulout.base.yaml import YamlError, load
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals
from haulout.embedded.rules.refusals import cannot_unmarshal, go_error
from haulout.embedded.store.field_managers import checked_config
from haulout.embedded.store.patches import apply_operations, strategic_merge
from haulout.kube.transport import JSON_PATCH, MERGE_PATCH

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Apply = Callable[[Json], Any]


def patcher(content_type: str, type_name: str) -> Callable[[bytes], Apply]:
    """Return a function that decodes the body of a patch into the change to apply. Raises `UnsupportedMediaType`."""
    kind = content_type.partition(";")[0].strip()
    if kind == JSON_PATCH:
        return _from_operations
    if kind == MERGE_PATCH:
        return _from_merge
    if not type_name:
        raise refusals.unknown_format((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
    if kind != STRATEGIC_MERGE_PATCH:
        raise refusals.refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details=refusals.Details())
    return lambda body: _from_strategic(type_name, body)


def configuration(body: bytes) -> Json:
    """Return the configuration that a server-side apply sends, as JSON or YAML."""
    try:
        return checked_config(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return checked_config(load(body.decode()))
    except (YamlError, UnicodeDecodeError) as error:
        raise refusals.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None


def _from_operations(body: bytes) -> Apply:
    patch = _decoded(body, "error decoding patch: ")
    wanted = "handlers.jsonPatchOp"
    if not isinstance(patch, list):
        raise refusals.bad_request(f"error decoding patch: {cannot_unmarshal(patch, f'[]{wanted}')}")
    strange = next((operation for operation in patch if not isinstance(operation, dict)), None)
    if strange is not None:
        raise refusals.bad_request(f"error decoding patch: {cannot_unmarshal(strange, wanted)}")
    return lambda obj: _json_patch(obj, patch)


def _from_merge(body: bytes) -> Apply:
    patch = _decoded(body, "error decoding patch: ")
    if not isinstance(patch, dict):
        raise refusals.bad_request(f"error decoding patch: {cannot_unmarshal(patch, 'map[string]interface {}')}")
    return lambda obj: json_patches.merge(obj, patch)


def _from_strategic(type_name: str, body: bytes) -> Apply:
    patch = _decoded(body, "")
    if not isinstance(patch, dict):
        raise refusals.bad_request(cannot_unmarshal(patch, "map[string]interface {}"))
    return lambda obj: strategic_merge(type_name, obj, patch)


def _decoded(body: bytes, prefix: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refusals.bad_request(f"{prefix}{go_error(body, error)}") from None


def _json_patch(obj: Json, operations: list[Any]) -> Any:
    try:
        return apply_operations(obj, operations)
    except json_patches.PatchFailed:
        # The real server does not report the reason.
        text = "the server rejected our request due to an error in our request"
        raise refusals.refusal(422, "Invalid", text, details=refusals.Details()) from None
