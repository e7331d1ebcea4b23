"""`skyhook completion SHELL`: the scripts that complete the commands and flags of this program in a shell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from haulout.cli.skyhook.flags import Flag

SHELLS = ("bash", "fish", "powershell", "zsh")
# The command that the scripts run to get candidates: the words so far, the last of which is being typed.
ASK = "__complete"
_BASH = """
_{program}() {{
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$({program} {ask} "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null | cut -f1)" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _{program} {program}
"""
_SCRIPTS = {
    "bash": _BASH,
    "zsh": "#compdef {program}\nautoload -U +X bashcompinit && bashcompinit" + _BASH,
    "fish": """
function __{program}_candidates
  set -l words (commandline -opc) (commandline -ct)
  {program} {ask} $words[2..] 2>/dev/null
end
complete -c {program} -f -a '(__{program}_candidates)'
""",
    "powershell": """
Register-ArgumentCompleter -Native -CommandName {program} -ScriptBlock {{
  param($word, $line, $position)
  $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object {{ "$_" }} | Where-Object {{ $_ -ne $word }})
  {program} {ask} @words "$word" 2>$null | ForEach-Object {{ $_.Split("`t")[0] }} | Where-Object {{ $_ -like "$word*" }}
}}
""",
}


def script(shell: str, program: str) -> str:
    """Return the script of a shell. It has to be sourced."""
    return _SCRIPTS[shell].format(program=program, ask=ASK).lstrip("\n")


def candidates(
    words: Sequence[str], commands: Mapping[tuple[str, ...], tuple[str, Sequence[Flag]]], general: Sequence[Flag]
) -> Iterator[str]:
    """Yield what can be typed in place of the last word, each with its description after a tab.

    `commands`: the help and the flags of each command. `general`: the flags of all commands.
    """
    *before, typed = words or [""]
    path = tuple(word for word in before if not word.startswith("-"))[:2]
    found = next((commands[path[:size]] for size in (2, 1) if path[:size] in commands), None)
    if typed.startswith("-"):
        flags = (*(found[1] if found else ()), *general)
        yield from (f"--{flag.name}\t{flag.help}" for flag in flags if f"--{flag.name}".startswith(typed))
    elif found is None:
        names = dict[str, str]()
        for known, (text, _) in commands.items():
            if known[: len(path)] == path and known[len(path)].startswith(typed):
                names.setdefault(known[len(path)], text if len(known) == len(path) + 1 else f"Commands for {known[0]}.")
        yield from (f"{name}\t{text}" for name, text in sorted(names.items()))
