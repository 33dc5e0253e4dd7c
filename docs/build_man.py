#!/usr/bin/env python3
"""Manual pages and completions, from the parsers and from docs/configuration.md.

`subord(1)` is the overview, each command has its own page (`man subord-tree`), and `subord.toml(5)` is
docs/configuration.md.

    ./dev man          writes dist/man/*.1, *.5 and dist/completions/{bash,zsh,fish}/

The language is that of man(7), with tbl(1) for tables. Pages have no date, so the same sources give the same pages.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from subord import __version__, cli
from subord.agent import main as agent
from subord.cli import completion
from subord.client import exit_codes
from subord.config import docs

DIST = Path(__file__).resolve().parents[1] / "dist"
COMPLETIONS = {"bash": "subord", "zsh": "_subord", "fish": "subord.fish"}
"""The file name under which each shell finds completions."""
ENVIRONMENT = (
    ("SUBORD_SOCKET", "control socket of the daemon, where --socket is not given"),
    ("SUBORD_OPERATOR_KEY", "SSH key that signs orders, where --key is not given"),
    ("SUBORD_GROUPS", "file of groups instead of /etc/subord/groups"),
    ("CLUSTERSHELL_CFGDIR", "directory of groups.conf instead of /etc/clustershell"),
    ("NO_COLOR", "set and not empty: no colours"),
    ("TERM", "dumb or not set: no colours, and subord top prints pages"),
)
FILES = (
    ("/etc/subord/subord.toml", "the configuration as the unit gives it to the daemon, subord.toml(5)"),
    ("/etc/subord/allowed_signers", "the operators and their SSH keys, ssh-keygen(1)"),
    ("/etc/subord/groups", "groups of nodes: lines of NAME: NODES"),
    ("/etc/clustershell/groups.conf", "groups of nodes as ClusterShell has them, groups.conf(5)"),
    ("/run/subord/control.sock", "the control socket"),
)


def main(dist: Path = DIST) -> None:
    """Write all pages and completions."""
    for name, text in pages().items():
        _write(dist / "man" / name, text)
    for shell, name in COMPLETIONS.items():
        _write(dist / "completions" / shell / name, completion.script(shell))
    print(f"{dist}: manual pages and completions written", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Every page by its file name."""
    found = {"subord.1": overview(), "subord.toml.5": configuration()}
    for words, parser, purpose in commands():
        found[f"{'-'.join(words)}.1"] = command(words, parser, purpose)
    found["subord-agent.8"] = command(("subord-agent",), agent.parser(), "carries out signed orders on this node", 8)
    return found


def commands() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser, str]]:
    """(words, parser, purpose in one line) of every command; its actions are on its page."""
    (sub,) = _below(cli.parser())
    for each in sub._choices_actions:
        yield ("subord", each.dest), sub.choices[each.dest], each.help or ""


def _below(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]


# -- pages ----------------------------------------------------------------------------------------------------------


def overview() -> str:
    """subord(1)."""
    top = cli.parser()
    lines = [*_head("subord", 1, "arranges the nodes of a cluster into a tree, without consensus")]
    lines += [".SH SYNOPSIS", ".B subord", r"[\fB\-\-version\fR] [\fB\-\-help\fR] \fICOMMAND\fR ..."]
    lines += [".SH DESCRIPTION", _text(top.description or "")]
    lines += [
        ".PP",
        r"\fBsubord run\fR is the daemon; the other commands ask it over its control socket, or need none.",
    ]
    lines.append(".SH COMMANDS")
    for words, _, purpose in commands():
        lines += [".TP", rf"\fB{_text('-'.join(words))}\fR(1)", _text(purpose)]
    lines += _listed("ENVIRONMENT", ENVIRONMENT) + _listed("FILES", FILES) + _exit_status()
    return _page([*lines, ".SH SEE ALSO", r"\fBsubord.toml\fR(5)"])


def command(words: tuple[str, ...], parser: argparse.ArgumentParser, purpose: str, section: int = 1) -> str:
    """subord-COMMAND(1)."""
    lines = [*_head("-".join(words), section, purpose)]
    below = [((*words, name), each) for sub in _below(parser) for name, each in sub.choices.items()]
    actions = below or [(words, parser)]
    lines.append(".SH SYNOPSIS")
    for number, (each_words, each) in enumerate(actions):
        lines += [*([".br"] if number else []), rf"\fB{_text(' '.join(each_words))}\fR {_synopsis(each)}".rstrip()]
    if len(actions) == 1:
        parser = actions[0][1]
    lines += [".SH DESCRIPTION", *_paragraphs(parser.description or purpose)]
    if len(actions) == 1:
        lines += [".SH OPTIONS", *_options(parser)]
    else:
        lines.append(".SH ACTIONS")
        for each_words, each in actions:
            lines += [f".SS {_text(' '.join(each_words))}", *_paragraphs(each.description or ""), *_options(each)]
    if parser.epilog:
        lines += [".SH NOTES", ".nf", *map(_text, parser.epilog.strip("\n").splitlines()), ".fi"]
    if "exit codes" not in (parser.epilog or ""):
        lines += [".SH EXIT STATUS", r"As listed in \fBsubord\fR(1)."]
    return _page([*lines, ".SH SEE ALSO", r"\fBsubord\fR(1), \fBsubord.toml\fR(5)"])


def configuration() -> str:
    """subord.toml(5), from docs/configuration.md."""
    tokens = MarkdownIt("commonmark").enable("table").parse(docs.page())
    first = next(number for number, token in enumerate(tokens) if token.type == "heading_close")
    lines = [*_head("subord.toml", 5, "configuration of the subord daemon"), ".SH DESCRIPTION"]
    return _page([*lines, *_roff(tokens[first + 1 :]), ".SH SEE ALSO", r"\fBsubord\fR(1), \fBsubord-config\fR(1)"])


# -- pieces ---------------------------------------------------------------------------------------------------------


def _page(lines: Iterable[str]) -> str:
    text = "\n".join(line for line in lines if line) + "\n"
    return re.sub(r"^(\.S[HS].*\n)\.PP\n", r"\1", text, flags=re.MULTILINE)  # a heading begins a paragraph


def _head(name: str, section: int, purpose: str) -> list[str]:
    title = rf'.TH {_text(name.upper())} {section} "" "subord {__version__}" "subord"'
    return ["'\\\" t", title, ".SH NAME", rf"{_text(name)} \- {_text(purpose)}"]


def _text(words: str) -> str:
    """Any text as roff without escapes or requests; its hyphens can be copied into a shell."""
    text = (
        words.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\`").replace("^", r"\(ha")
    )
    text = text.replace("~", r"\(ti").replace("%%", "%")
    return rf"\&{text}" if text.startswith(".") else text


def _paragraphs(words: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", words.strip())):
        if number:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _synopsis(parser: argparse.ArgumentParser) -> str:
    """The arguments of the command, as in its usage."""
    usage = " ".join(parser.format_usage().split()).partition(parser.prog)[2]
    usage = re.sub(r"\[-h\] ?", "", usage).strip()
    return re.sub(r"--?[a-zA-Z][a-z_-]*", lambda found: rf"\fB{_text(found[0])}\fR", usage)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        if action.help in {None, argparse.SUPPRESS} or isinstance(action, argparse._SubParsersAction):
            continue
        names = ", ".join(rf"\fB{_text(name)}\fR" for name in action.option_strings)
        value = (
            ""
            if action.nargs == 0
            else rf"\fI{_text(formatter._format_args(action, action.metavar or action.dest))}\fR"
        )
        if action.choices is not None and not action.metavar:
            value = rf"\fI{_text('|'.join(map(str, action.choices)))}\fR"
        yield ".TP"
        yield f"{names} {value}".strip()
        yield _text(formatter._expand_help(action))


def _listed(title: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    lines = [f".SH {title}"]
    for name, text in pairs:
        lines += [".TP", rf"\fB{_text(name)}\fR", _text(text)]
    return lines


def _exit_status() -> list[str]:
    return _listed("EXIT STATUS", ((str(code), meaning) for code, meaning in exit_codes.MEANINGS.items()))


# -- Markdown -------------------------------------------------------------------------------------------------------


def _roff(tokens: list[Token]) -> Iterator[str]:
    """The elements of docs/configuration.md. Raises ValueError for any other element; it needs a line here then."""
    in_item = False
    rows: list[list[str]] = []
    for number, token in enumerate(tokens):
        match token.type:
            case "heading_open":
                text = _inline(tokens[number + 1])
                yield f"{'.SH' if token.tag == 'h2' else '.SS'} {text}"
            case "paragraph_open":
                if not in_item:
                    yield ".PP"
            case "list_item_open":
                in_item = True
                yield r".IP \(bu 2"
            case "list_item_close":
                in_item = False
            case "fence":
                yield from (".PP", ".RS 4", ".nf", *map(_text, token.content.splitlines()), ".fi", ".RE")
            case "inline":
                if tokens[number - 1].type in {"th_open", "td_open"}:
                    rows[-1].append(_inline(token))
                elif tokens[number - 1].type == "paragraph_open":
                    yield _inline(token)
            case "tr_open":
                rows.append([])
            case "table_close":
                yield from _table(rows)
                rows = []
            case "html_block":
                pass  # a comment
            case kind if not kind.endswith(("_open", "_close")):
                raise ValueError(f"no words for {kind} in a manual page")


def _table(rows: list[list[str]]) -> Iterator[str]:
    """The last column is text and gets the remaining width."""
    yield from (".TS", "tab(|);", " ".join(["lb"] * len(rows[0])), f"{' '.join(['l'] * (len(rows[0]) - 1))} lx.")
    for row in rows:
        yield "|".join([*row[:-1], f"T{{\n{row[-1]}\nT}}"])
    yield ".TE"


def _inline(token: Token) -> str:
    """Words, with code in bold; of a link only its text."""
    text = ""
    for each in token.children or ():
        match each.type:
            case "text":
                text += _text(each.content) if text else _text(each.content.lstrip())
            case "code_inline":
                text += rf"\fB{_text(each.content)}\fR"
            case "softbreak":
                text += " "
            case "link_open" | "link_close" | "em_open" | "em_close" | "strong_open" | "strong_close":
                pass
            case kind:
                raise ValueError(f"no words for {kind} in a manual page")
    return text


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
