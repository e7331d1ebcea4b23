"""Makes the transcripts of two servers comparable: what is a server's own choice becomes a number or a word.

UIDs and generated names are numbered in the order of their appearance, so that what was equal stays equal. Versions of
objects become their rank, so that their order stays. Instants near now become words; those that a case chose stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
HASH_LABELS = ("pod-template-hash", "controller-revision-hash")
OTHERS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: <version> (<version>)"),
    (re.compile(r"(Too large resource version: \d+, current:) \d+"), r"\1 <version>"),
    (
        re.compile(r"(ResourceVersion in the precondition) \(\d+\)(.*in record) \(\d+\)"),
        r"\1 (<version>)\2 (<version>)",
    ),
    # The real server prints its own structures here.
    (re.compile(r"(if it was previously negative\))\n.*", re.DOTALL), r"\1\n<what has changed>"),
    (re.compile(r'(is invalid: patch: )?Invalid value: "\{.*\}": '), r'\1Invalid value: "<the object>": '),
    (re.compile(r"(error converting YAML to JSON): .*"), r"\1: <no YAML>"),
    # What JSON and regular expressions are not is said by the libraries that read them.
    (re.compile(r"invalid character .*? looking for beginning of (value|object key string)"), "<no JSON>"),
    (re.compile(r"JSON is malformed: .*? \(byte \d+\)"), "<no JSON>"),
    (re.compile(r"(error parsing regexp): .*"), r"\1: <why>"),
    # Go and Python describe the same network failure in their own words.
    (re.compile(r'(failed to call webhook: Post "[^"]*"): .*'), r"\1: <network failure>"),
)


def normal(steps: list[Any], generated: Mapping[str, str]) -> list[Any]:
    """Return a transcript in a form that can be compared.

    `generated`: the names and hashes that a server has generated, with the prefix that was given, if any.
    """
    text = json.dumps(drop_managed(steps))
    # By chance a UID holds a short name such as a-0.
    names = numbered(generated, UID.sub("", text))
    versions = sorted({int(found) for found in re.findall(r'resourceVersion": "(\d+)"', text)})
    ranks = {str(version): f"<version {rank}>" for rank, version in enumerate(versions, 1)}
    uids: dict[str, str] = {}
    for found in UID.findall(text):
        uids.setdefault(found, f"<uid {len(uids) + 1}>")

    def words(value: str) -> str:
        value = UID.sub(lambda match: uids.get(match[0], match[0]), value)
        for name in sorted(names, key=len, reverse=True):
            value = value.replace(name, names[name])
        value = TIME.sub(instant, value)
        for pattern, word in OTHERS:
            value = pattern.sub(word, value)
        return value

    def walk(value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {words(name): walk(item, name) for name, item in value.items()}
            case list():
                return [walk(item, key) for item in value]
            case str() if key in {"clusterIP", "clusterIPs", "Cluster-IP"} and ADDRESS.fullmatch(value):
                return "<address>"
            case int() if key == "nodePort":
                return "<port>"
            case str() if key.endswith("resourceVersion") and value in ranks:
                return ranks[value]
            case str():
                return words(value)
        return value

    # Read back, as records are: a tuple is a list then.
    made: list[Any] = walk(json.loads(text))
    return made


def drop_managed(value: Any) -> Any:
    """Return a transcript in which managed fields are replaced by the clients that cordoned a node, if any."""
    match value:
        case dict():
            kept = {key: drop_managed(item) for key, item in value.items() if key != "managedFields"}
            managers = cordon_managers(value.get("managedFields"))
            return {**kept, "managedFields": managers} if managers else kept
        case list():
            return [drop_managed(item) for item in value]
    return value


def cordon_managers(managed: Any) -> list[str]:
    noted = [each for each in managed if isinstance(each, dict)] if isinstance(managed, list) else []
    return sorted(each["manager"] for each in noted if "f:unschedulable" in (each["fieldsV1"].get("f:spec") or {}))


def generated_in(value: Any) -> Iterator[tuple[str, str]]:
    """Return the names and hashes in an answer that the server has generated."""
    if isinstance(value, dict):
        meta = value.get("metadata")
        if isinstance(meta, dict) and meta.get("generateName") and meta.get("name"):
            yield meta["name"], meta["generateName"]
        for label in HASH_LABELS:
            if isinstance(value.get(label), str):
                yield value[label], ""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from generated_in(item)


def numbered(generated: Mapping[str, str], text: str) -> dict[str, str]:
    """Return what replaces each generated name, numbered in the order of appearance."""
    counts: dict[str, int] = {}
    found: dict[str, str] = {}
    for name in sorted((name for name in generated if name in text), key=text.index):
        stem = generated[name]
        counts[stem] = counts.get(stem, 0) + 1
        found[name] = f"{stem}<generated {counts[stem]}>"
    return found


def instant(match: re.Match[str]) -> str:
    at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    if abs(datetime.now(UTC) - at) > timedelta(days=1):
        return match[0]
    return "<instant in microseconds>" if match[2] else "<instant>"
