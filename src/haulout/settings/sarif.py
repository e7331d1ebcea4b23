"""Findings of `haulout lint` as SARIF 2.1.0, which code scanners and code hosts read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import haulout
from haulout.settings.lint import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "settings": "A configuration file must be read without errors.",
    "schema": "An object must fit the schema of its CustomResourceDefinition.",
    "rule": "An object must keep the rules that the admission webhook and the operator apply.",
}


def sarif(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return a SARIF log with one run and a result for each finding."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    driver = {"name": "haulout lint", "version": haulout.__version__, "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(each) for each in findings]}],
    }


def _uri(name: str) -> str:
    """Return the URI of a file: relative to the repository that is scanned, or absolute with its scheme."""
    return Path(name).as_uri() if Path(name).is_absolute() else quote(name)


def _result(finding: Finding) -> dict[str, Any]:
    text = ": ".join(filter(None, (finding.path, finding.what))) + (f" ({finding.right})" if finding.right else "")
    location = {
        "artifactLocation": {"uri": _uri(finding.file)},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
    }
