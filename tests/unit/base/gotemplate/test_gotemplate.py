"""Templates: compared with the recorded results of Go's text/template, and with Go itself where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.base.gotemplate import TemplateError, Word, render
from haulout.base.gotemplate.execute import MOST_STEPS
from tests.rig.session import lack
from tests.unit.base.gotemplate.data import DATA

HERE = Path(__file__).parent
ANSWERS = [json.loads(line) for line in (HERE / "answers.jsonl").read_text().splitlines()]
TEXTS = [answer["template"] for answer in ANSWERS if "text" in answer]


def rendered(template: str) -> dict[str, str]:
    try:
        return {"template": template, "text": render(template, DATA)}
    except TemplateError as error:
        return {"template": template, "error": str(error)}


@pytest.mark.parametrize("answer", ANSWERS, ids=[answer["template"] for answer in ANSWERS])
def test_a_template_gives_what_go_gives(answer: dict[str, str]) -> None:
    assert rendered(answer["template"]) == answer


def go_answers(templates: list[str], where: Path) -> list[dict[str, Any]]:
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        lack("no go: install Go to compare with its own text/template")
    assert go is not None
    oracle = where / "oracle"
    subprocess.run([go, "build", "-o", oracle, HERE / "oracle.go"], check=True, timeout=240)
    asked = subprocess.run(
        [oracle], input=json.dumps(templates), capture_output=True, text=True, check=True, timeout=60
    )
    found = zip(templates, json.loads(asked.stdout), strict=True)
    return [
        {"template": template, **({"error": each["error"]} if each["error"] else {"text": each["text"]})}
        for template, each in found
    ]


# Parts of working templates, put together at random.
PIECES = (
    "{{ .N }}", "{{ .State }}", "{{ .M.zzz }}", "{{ if .N }}", "{{ if .Nothing }}", "{{ else }}", "{{ end }}", "{{ end }}",
    "{{- ", " -}}", "{{ range .S }}", '{{ len "é" }}', "{{ with .Node }}", "{{ .Name }}", "{{ $x := 1 }}", "{{ $x }}", " a ", "\n",
    "{{ break }}", '{{ define "t" }}', '{{ template "t" . }}', "{{ index .S 1 }}", "{{ eq .N 42 }}", '{{ .N | printf "%5d" }}',
)  # fmt: skip


def assembled() -> list[str]:
    found: list[str] = []

    @given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join))
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found


def test_go_itself_still_says_the_same(tmp_path: Path) -> None:
    assert go_answers([answer["template"] for answer in ANSWERS], tmp_path) == ANSWERS


def test_go_itself_says_the_same_of_templates_put_together_at_random(tmp_path: Path) -> None:
    templates = assembled()
    assert [rendered(template) for template in templates] == go_answers(templates, tmp_path)


def test_a_word_prints_itself_and_has_fields() -> None:
    profile = Word("kernel", {"Current": "kernel", "Last": "os"})
    text = '{{ .P }} {{ .P.Current }}/{{ .P.Last }} {{ eq .P "kernel" }} {{ len .P }} {{ printf "%q" .P }}'
    assert render(text, {"P": profile}) == 'kernel kernel/os true 6 "kernel"'
    with pytest.raises(TemplateError, match="can't evaluate field Next in type string"):
        render("{{ .P.Next }}", {"P": profile})


@pytest.mark.parametrize(
    "text",
    [
        "{{ range 1000000000 }}x{{ end }}",
        '{{ range 100 }}{{ printf "%90000d" . }}{{ end }}',
        '{{ $s := "x" }}{{ range 100 }}{{ $s = print $s $s }}{{ end }}',
        '{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}',
        "{{ if 1 }}" * 2000 + "{{ end }}" * 2000,
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ],
    ids=["long", "wide", "doubled", "endless", "deep", "nested"],
)
def test_what_would_not_end_is_refused(text: str) -> None:
    with pytest.raises(TemplateError, match=f"{MOST_STEPS}|too long|maximum template depth|max expression depth"):
        render(text, {})


@given(st.text(alphabet="{}-. \n\"'`$()|:=,/*abN1%x\\", max_size=40))
def test_no_text_makes_it_fail_otherwise_than_in_words(text: str) -> None:
    rendered("{{" + text + "}}")
    rendered(text)


@given(st.sampled_from(TEXTS), st.integers(0, 200), st.sampled_from("{}().|$\"' x1-"))
def test_a_typing_error_never_makes_it_fail_otherwise_than_in_words(text: str, at: int, typed: str) -> None:
    rendered(text[:at] + typed + text[at:])
