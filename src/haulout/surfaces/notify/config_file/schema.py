"""The JSON schema of the configuration file, for editors, made from the blocks and the rules of their keys."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from haulout.surfaces.notify.config_file import rules
from haulout.surfaces.notify.config_file.reading import LARGEST
from haulout.surfaces.notify.load import BLOCKS
from haulout.surfaces.notify.recipes.recipe import ANSIBLE, OF_THE_NOTICE, JobTemplate

Json = dict[str, Any]

_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_SPAN = f"(0|({_NUMBER})+)"
_TIME_OF_DAY = "^([01]?[0-9]|2[0-3]):[0-5][0-9]$"
_NULL = {"type": "null"}


def schema() -> Json:
    """Return the schema. It accepts everything that the loader accepts, and refuses most errors."""
    kinds = [*BLOCKS.values(), JobTemplate]
    parts, definitions = msgspec.json.schema_components(
        kinds, schema_hook=lambda kind: {"x-span": True}, ref_template="#/$defs/{name}"
    )
    for name, block in definitions.items():
        block["description"] = _in_words_of_the_file(block.get("description", ""))
        for key, held in block["properties"].items():
            block["properties"][key] = _nullable(_ruled((name, key), held))
    _recipe(definitions)
    _mail(definitions["Mail"])
    properties = {name: _nullable(part) for name, part in zip(BLOCKS, parts, strict=False)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "notifyMaintenanceConfig.yaml",
        "type": "object",
        "required": ["slaPeriod"],
        "properties": {"slaPeriod": _period(), **properties},
        "$defs": definitions,
    }


def _period() -> Json:
    text = {"type": "string", "pattern": f"^[+]?(?=.*[1-9]){_SPAN}$"}
    return {"description": "A duration above 0, as 8h.", "anyOf": [text, {"type": "integer", "exclusiveMinimum": 0}]}


def _ruled(key: tuple[str, str], held: Json) -> Json:
    """Return the schema of a key with its rules added."""
    if "x-span" in held:
        return _span(key)
    made = dict(held)
    if key in rules.WORDS:
        within = {"enum": list(rules.WORDS[key])}
        return {**made, "items": within} if made.get("type") == "array" else {**made, **within}
    if made.get("type") == "integer":
        return {**made, "minimum": rules.LEAST.get(key, -LARGEST), "maximum": LARGEST}
    if key in rules.NEEDED:
        return {**made, "pattern": r"\S"}
    if key in rules.ADDRESSES:
        return {**made, "pattern": "^([Hh][Tt][Tt][Pp][Ss]?://[^/]|$)"}
    return {**made, **_PATTERNS.get(key, {})}


def _span(key: tuple[str, str]) -> Json:
    sign = "[-+]?" if key in rules.OF_ANY_SIGN else "[+]?"
    if key in rules.ABOVE_ZERO:
        return {
            "type": "string",
            "pattern": f"^{sign}(?=.*[1-9]){_SPAN}$",
            "description": "A duration above 0, as 90s.",
        }
    # Only zero needs no unit. -0s is zero, so it is not negative.
    text = {"type": "string", "pattern": f"^({sign}{_SPAN}|-(0|(0+(ns|us|ms|s|m|h))+))$"}
    return {"description": "A duration, as 90s or 1h30m.", "anyOf": [text, {"const": 0}]}


_PATTERNS: dict[tuple[str, str], Json] = {
    ("Sns", "enabled"): {"anyOf": [{"type": "boolean"}, {"const": "auto"}]},
    ("Mail", "address"): {"pattern": "^(.+:[0-9]{1,5})?$"},
    ("Window", "start"): {"pattern": _TIME_OF_DAY},
    ("Window", "end"): {"pattern": _TIME_OF_DAY},
    ("Scheduler", "minLikelihood"): {"minimum": 0, "maximum": 1},
    ("Fairness", "weights"): {"additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
    ("Budget", "maxUnavailable"): {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": LARGEST},
            {"type": "string", "pattern": f"^{rules.PERCENT}$"},
        ]
    },
    ("DrainPolicy", "action"): {
        "pattern": "|".join(f"^{''.join(f'[{c.upper()}{c.lower()}]' for c in word)}$" for word in rules.ACTIONS)
    },
    ("Recipe", "name"): {"pattern": f"^{rules.LABEL_VALUE}$"},
    ("Recipe", "namespace"): {"pattern": f"^({rules.NAMESPACE}|{OF_THE_NOTICE})?$"},
    ("TemplatePodSpec", "containers"): {"minItems": 1},
}


def _recipe(definitions: Json) -> None:
    """Add what each type of recipe needs, and which types the runner accepts."""
    recipe = definitions["Recipe"]
    recipe["properties"]["template"] = {"anyOf": [{"$ref": "#/$defs/JobTemplate"}, {"maxProperties": 0}, _NULL]}
    recipe["allOf"] = [
        {
            "if": _of_type(kind),
            "then": {"required": list(needed), "properties": {key: {"not": _EMPTY} for key in needed}},
        }
        for kind, needed in rules.NEEDS.items()
    ]
    recipe["allOf"].append(
        {"if": _of_type(ANSIBLE), "then": {"properties": {"namespace": {"not": {"const": OF_THE_NOTICE}}}}}
    )
    types = {"properties": {"type": {"enum": list(rules.RUNNER_TYPES)}}}
    runner = {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/Recipe"}, types]}}
    definitions["Runner"]["properties"]["recipes"] = _nullable(runner)


def _mail(mail: Json) -> None:
    """Add that sender and recipients are required if there is a mail server."""
    has_server = {"properties": {"address": {"not": _EMPTY}}, "required": ["address"]}
    empty = {"anyOf": [_EMPTY, {"type": "array", "maxItems": 0}]}
    needed = {"required": ["from", "to"], "properties": {key: {"not": empty} for key in ("from", "to")}}
    mail["allOf"] = [{"if": has_server, "then": needed}]


def _of_type(kind: str) -> Json:
    return {"properties": {"type": {"const": kind}}}


_EMPTY: Json = {"anyOf": [_NULL, {"const": ""}, {"type": "object", "maxProperties": 0}]}


def _nullable(held: Json) -> Json:
    """Return a schema that also accepts null, for a key whose whole content is commented out."""
    return {"anyOf": [held, _NULL], **{key: held[key] for key in ("description", "default") if key in held}}


def _in_words_of_the_file(text: str) -> str:
    """Return a description with the keys spelled as in the file: `snake_case` becomes `camelCase`."""
    plain = re.sub(r"\s+", " ", text)
    return re.sub(r"`([a-z]+(?:_[a-z]+)+)`", lambda found: f"`{_camel(found[1])}`", plain)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
