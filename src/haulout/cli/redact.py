"""Takes secrets out of what leaves the house: configuration and objects, for a support archive. Pure."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

REMOVED = "(removed)"
# Names of settings, variables and flags whose value is nobody's business.
SECRET_NAME = re.compile(
    r"((pass(word|wd|phrase)?|pwd|token|secret|credential|(api|private|access|client)[-_.]?key|authorization|bearer"
    r"|cookie|signature)s?|(web)?hook([-_.]?url)?)$",
    re.IGNORECASE,
)
# Whoever knows one of these may write there.
WEBHOOK = re.compile(r"^https?://([^/]*\bhooks?\.|[^?#]*/(web)?hooks?/|[^?#]*/services/T)", re.IGNORECASE)
# A certificate's key, or a token that carries its own meaning.
SECRET_TEXT = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY|^eyJ[\w-]+\.[\w-]+\.")
# A reference to a variable says where the secret is, not what it is; one with a default says both.
REFERENCE = re.compile(r"^\$\{?[A-Za-z_][A-Za-z0-9_]*\}?$")
FLAG = re.compile(r"^(--?[\w.-]+)=(.*)$", re.DOTALL)
# Copies of the whole object, written by clients.
COPIES = ("kubectl.kubernetes.io/last-applied-configuration",)


def redacted(value: Any, name: str = "") -> Any:
    """The same tree without secrets: by the name of a value, or by what it looks like."""
    match value:
        case dict():
            return {key: redacted(each, str(key)) for key, each in value.items()}
        case list() | tuple():
            return [redacted(each, name) for each in value]
        case str():
            return _text(value, secret=bool(SECRET_NAME.search(name)))
        case None | bool():
            return value
        case _:
            return REMOVED if SECRET_NAME.search(name) else value


def redacted_yaml(data: bytes) -> str:
    """Every document of a file, without its comments, which may say anything. Raises `yaml.YAMLError`."""
    # The base loader knows texts alone: numbers and dates come out as they went in.
    documents = [redacted(tree) for tree in yaml.load_all(data, Loader=yaml.BaseLoader)]
    return yaml.safe_dump_all(documents, sort_keys=False, width=120)


def redacted_object(obj: dict[str, Any]) -> dict[str, Any]:
    """A Kubernetes object: no variables of containers, no copies of itself in annotations, no bookkeeping."""
    made = dict(obj)
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name != "managedFields"}
    if "annotations" in metadata:
        metadata["annotations"] = {name: value for name, value in metadata["annotations"].items() if name not in COPIES}
    made["metadata"] = metadata
    if obj.get("kind") == "Pod":
        made["spec"] = _pod_spec(obj.get("spec", {}))
    return made


def _pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    groups = ("containers", "initContainers", "ephemeralContainers")
    return {name: [_container(each) for each in value] if name in groups else value for name, value in spec.items()}


def _container(container: dict[str, Any]) -> dict[str, Any]:
    made = dict(container)
    if "env" in made:
        made["env"] = [{**one, "value": REMOVED} if one.get("value") else one for one in made["env"]]
    for name in ("command", "args"):
        if name in made:
            made[name] = [_argument(word) for word in made[name]]
    return made


def _argument(word: str) -> str:
    flag = FLAG.match(word)
    if flag is None:
        return _text(word, secret=False)
    return f"{flag[1]}={_text(flag[2], secret=bool(SECRET_NAME.search(flag[1])))}"


def _text(text: str, *, secret: bool) -> str:
    if not text or REFERENCE.match(text):
        return text
    if secret or SECRET_TEXT.search(text) or WEBHOOK.match(text):
        return REMOVED
    return _url(text) if "://" in text else text


def _url(text: str) -> str:
    """An address without its login and without what follows the question mark."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return REMOVED
    login, at, host = parts.netloc.rpartition("@")
    query = REMOVED if parts.query else ""
    return urlunsplit((parts.scheme, f"{REMOVED}@{host}" if at and login else parts.netloc, parts.path, query, ""))
