"""The reference pages of the documentation, each made from what the code declares (decision 0072)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from haulout.cli.schema import DOCUMENTS
from haulout.explain.codes import page as reasons
from haulout.surfaces.profiles.load import known_plugins
from haulout.surfaces.profiles.reference import page as plugins
from haulout.surfaces.registry import load
from tools.reference import chart, commands, console_api, crds, documents, flags, metrics, settings

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


# The last line of each page: a sentence, and a command that can be copied.
ENDS = {
    "chart.md": ("Check your values before you install them:", "helm template haulout deploy/chart -f values.yaml"),
    "commands.md": ("The same for one command:", "haulout help drain"),
    "console-api.md": ("Serve it for the cluster of your kubeconfig:", "haulout console"),
    "crds.md": ("Install the definitions of all surfaces:", "haulout crds | kubectl apply --server-side -f -"),
    "documents.md": ("The schema of a configuration file for editors:", "haulout schema profiles"),
    "flags.md": ("The same for one of them, from the command line:", "haulout as maintenance-controller --help"),
    "metrics.md": ("What a process exports now:", "curl -s localhost:8080/metrics"),
    "plugins.md": ("Check the settings of all instances in a file:", "haulout lint config/maintenance.yaml"),
    "reasons.md": ("The codes of what one node waits for:", "haulout explain NODE -o json"),
    "README.md": ("Every command and its options:", "haulout help"),
    "settings.md": ("Check a file, and the files that it names:", "haulout lint haulout.yaml"),
}
# What is on each page, for the index of the folder.
CONTENTS = {
    "commands.md": "every command, with its arguments, options and exit codes",
    "settings.md": "every setting of `haulout.yaml`, with its variable in the environment",
    "chart.md": "every value of the Helm chart, with its default",
    "flags.md": "the flags of each original, and the setting that says the same",
    "plugins.md": "checks, triggers and notifiers of `maintenance.yaml`",
    "crds.md": "every field of every custom resource",
    "reasons.md": "the codes of what a node waits for, and what helps",
    "documents.md": "the JSON schemas of what commands print with `-o json`",
    "console-api.md": "the paths and answers of the console's HTTP API",
    "metrics.md": "what `/metrics` exports",
}


def pages() -> dict[str, str]:
    """Return the text of every page by the name of its file."""
    made = {
        "chart.md": _text(chart.lines()),
        "commands.md": _text(commands.lines()),
        "console-api.md": _text(console_api.lines()),
        "crds.md": _text(crds.lines()),
        "documents.md": _text(documents.lines()),
        "flags.md": _text(flags.lines()),
        "metrics.md": _text(metrics.lines()),
        "plugins.md": _text(plugins(known_plugins())),
        "reasons.md": reasons(),
        "settings.md": _text(settings.lines()),
    }
    made["README.md"] = _text(_index(made))
    return {
        **{name: f"{text.rstrip()}\n\n{ENDS[name][0]}\n\n    {ENDS[name][1]}\n" for name, text in made.items()},
        **{f"{name}.schema.json": _schema(path) for name, path in DOCUMENTS.items()},
    }


def _index(made: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the page that leads to all others. Raises ValueError for a page that `CONTENTS` lacks."""
    yield "# Reference"
    yield ""
    yield "Every name that Haulout reads or writes. Made by `python -m tools.reference` from what the code declares."
    yield ""
    yield "| Page | What is on it |"
    yield "|---|---|"
    for name in sorted(made, key=[*CONTENTS].index):
        title = made[name].partition("\n")[0].removeprefix("# ")
        yield f"| [{title}]({name}) | {CONTENTS[name]} |"


def _schema(path: str) -> str:
    return msgspec.json.format(msgspec.json.encode(load(path)()), indent=2).decode() + "\n"


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
