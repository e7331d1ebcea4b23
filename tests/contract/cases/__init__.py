"""The cases, by area."""

from tests.contract.cases import (
    applies,
    custom,
    deletion,
    eviction,
    formats,
    kinds,
    lists,
    names,
    packages,
    patches,
    subresources,
    watches,
    webhooks,
    workloads,
    writes,
)
from tests.contract.registry import CASES

__all__ = [
    "CASES",
    "applies",
    "custom",
    "deletion",
    "eviction",
    "formats",
    "kinds",
    "lists",
    "names",
    "packages",
    "patches",
    "subresources",
    "watches",
    "webhooks",
    "workloads",
    "writes",
]
