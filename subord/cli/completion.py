"""`subord completion`: shell completion, made by shtab from the parsers.

This module adds what shtab cannot know: which words are files, and which are addresses of the running cluster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from subord.client import exit_codes
from subord.client.errors import CommandError

SHELLS = ("bash", "zsh", "fish")
FILES = ("FILE", "PATH")  # metavars of files
NODES = ("NODE", "NODES")  # metavars of sets of nodes; the ADDRESS of a command needs no running node
PREAMBLE = {
    "bash": """\
_subord_nodes() {
  compgen -W "$(subord members --list --timeout 2 2>/dev/null)" -- "$1"
}
""",
    "zsh": """\
_subord_nodes() {
  local -a found
  case $PREFIX in
    @*) found=( ${(f)"$(subord nodeset --groups --timeout 2 2>/dev/null)"} ) ;;
    *) found=( ${(f)"$(subord members --list --timeout 2 2>/dev/null)"} ) ;;
  esac
  compadd -a found
}
""",
    "fish": """\
function _subord_nodes
  switch (commandline --current-token)
    case '@*'
      subord nodeset --groups --timeout 2 2>/dev/null
    case '*'
      subord members --list --timeout 2 2>/dev/null
  end
end
""",
}
HOW = """\
bash, for one session:      source <(subord completion bash)
bash, for all users:        subord completion bash > /etc/bash_completion.d/subord
zsh, in a directory of fpath:  subord completion zsh > ~/.zfunc/_subord
fish:                       subord completion fish > ~/.config/fish/completions/subord.fish
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "completion",
        help="print shell completion",
        description="Print a script that lets a shell complete commands, options and their values, and the addresses "
        "of the running cluster; zsh and fish also the groups after an @. The packages install it.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    sys.stdout.write(script(arguments.shell))
    return exit_codes.OK


def script(shell: str) -> str:
    """For one of SHELLS. Raises CommandError."""
    from subord.cli import parser

    try:
        import shtab
    except ImportError:
        missing = "completions are written by shtab, which is missing here: install it with pip"
        raise CommandError(missing, exit_codes.CONFIGURATION) from None
    top = parser()
    for action in _actions(top):
        if action.metavar in FILES:
            action.complete = shtab.FILE
        elif action.metavar in NODES:
            action.complete = {**dict.fromkeys(SHELLS, "_subord_nodes"), "fish": "(_subord_nodes)"}
    made: str = shtab.complete(top, shell=shell, preamble=PREAMBLE[shell])
    return made


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """Every option and argument; each command's help becomes its description."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield action
            continue
        for each in action._choices_actions:
            action.choices[each.dest].description = each.help
            yield from _actions(action.choices[each.dest])
