"""Answers as JSON, as a caller may see them."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.console.sight import Sight, visible_part


def encode(document: Any, sight: Sight) -> bytes:
    """Return a document as JSON, as a caller of this sight may see it."""
    if sight.is_whole:
        return msgspec.json.encode(document)
    return msgspec.json.encode(_visible(msgspec.to_builtins(document), sight))


def _visible(document: Any, sight: Sight) -> Any:
    """Return a document without the lists of objects that the caller may not list, and without texts that name others."""
    if isinstance(document, dict):
        if "budgets" in document and not sight.may_list("NodeDisruptionBudget"):
            document = {**document, "budgets": []}
        if (found := document.get("installation")) and sight.pods is not None:
            replicas = [each for each in found["replicas"] if each["namespace"] in sight.pods]
            document = {**document, "installation": {**found, "replicas": replicas}}
    return visible_part(document, sight)
