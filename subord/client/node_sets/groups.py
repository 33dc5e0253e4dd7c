"""Finds groups of nodes: in a file of subord, in the configuration of ClusterShell, and in its commands.

In: the directory of ClusterShell (`groups.conf`, `groups.conf.d/*.conf`, `groups.d/*.cfg` and `*.yaml`), the path of
subord's file, and groups of other origins. Out: for a group its text, which `algebra.py` reads, or a NodeSetError.
Nothing is read before the first group is asked for. Invariant: a command gets no word that a shell could read
otherwise than as written, at most OUTPUT_BYTES_MAX of its output is read, and it ends after COMMAND_S at the latest.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from subord.client.node_sets.algebra import ALL, NodeSetError, is_group_name

if TYPE_CHECKING:
    import subprocess
    from configparser import ConfigParser

COMMAND_S: Final = 10.0
OUTPUT_BYTES_MAX: Final = 4 << 20
GROUPS_MAX: Final = 1000
"""Groups of one source that a command is asked for one by one."""
OWN: Final = "subord"
"""The source of the groups in subord's own file."""


class Failure(NamedTuple):
    """Why there is no answer. `passing`: a command failed, and may succeed the next time."""

    text: str
    passing: bool = False


class Source(Protocol):
    """Groups under one name."""

    def nodes(self, group: str) -> str | Failure | None:
        """The text of a group, or of ALL; None: there is no such group."""

    def names(self) -> list[str] | Failure:
        """The names of the groups."""


class Listed:
    """Groups by name, of which `names` may be known before. The group `all`, where there is one, is ALL."""

    def __init__(self, read: Callable[[], Mapping[str, str] | Failure], names: Sequence[str] = ()) -> None:
        self._read, self._names = read, names
        self._groups: Mapping[str, str] | Failure | None = None

    def nodes(self, group: str) -> str | Failure | None:
        groups = self._known()
        if isinstance(groups, Failure) or group != ALL:
            return groups if isinstance(groups, Failure) else groups.get(group)
        return groups.get("all", ",".join(groups.values()))

    def names(self) -> list[str] | Failure:
        if self._names:
            return list(self._names)
        groups = self._known()
        return groups if isinstance(groups, Failure) else list(groups)

    def _known(self) -> Mapping[str, str] | Failure:
        if self._groups is None:
            self._groups = self._read()
        return self._groups


class Commands:
    """A section of `groups.conf`: the commands `map`, `list`, `all` and `mapall`, run by /bin/sh in `folder`.

    As in ClusterShell $GROUP, $SOURCE and $CFGDIR are replaced in the text of a command, also inside quotes.
    """

    def __init__(self, name: str, commands: Mapping[str, str], folder: str) -> None:
        self._name, self._commands, self._folder = name, commands, folder
        self._listed = Listed(self._mapall) if "mapall" in commands else None

    def nodes(self, group: str) -> str | Failure | None:
        if group == ALL:
            return self._all()
        if self._listed is not None:
            return self._listed.nodes(group)
        found = self._output("map", group)
        if found or isinstance(found, Failure):
            return found
        # Most commands print nothing for an unknown group. Without a list an empty group cannot be told from one.
        names = self.names() if "list" in self._commands else []
        return names if isinstance(names, Failure) else "" if group in names else None

    def names(self) -> list[str] | Failure:
        if self._listed is not None:
            return self._listed.names()
        found = self._output("list")
        return found if isinstance(found, Failure) else found.split()

    def _all(self) -> str | Failure | None:
        if "all" in self._commands:
            return self._output("all")
        if self._listed is not None:
            return self._listed.nodes(ALL)
        names = self.names()
        if isinstance(names, Failure):
            return names
        if len(names) > GROUPS_MAX:
            return Failure(f"the source {self._name} lists more than {GROUPS_MAX} groups: give it a command `all`")
        texts = []
        for each in names:
            text = self._output("map", each) if is_group_name(each) else ""
            if isinstance(text, Failure):
                return text
            texts.append(text)
        return ",".join(texts)

    def _mapall(self) -> Mapping[str, str] | Failure:
        found = self._output("mapall")
        return found if isinstance(found, Failure) else groups_in(found, f"the output of mapall of {self._name}")

    def _output(self, kind: str, group: str = "") -> str | Failure:
        if kind not in self._commands:
            return Failure(f"the source {self._name} has no command `{kind}`")
        words = {"GROUP": group, "SOURCE": self._name, "CFGDIR": self._folder}
        return run(Template(self._commands[kind]).safe_substitute(words), self._folder)


def run(command: str, folder: str) -> str | Failure:
    """The output of a command. Its standard error is that of this process."""
    import subprocess

    try:
        process = subprocess.Popen(  # noqa: S603 - a command of the administrator
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,  # so that its end also ends what it started
        )
    except OSError as error:
        return Failure(f"cannot run {_quoted(command)}: {error.strerror}", passing=True)
    until = time.monotonic() + COMMAND_S
    try:
        output = _read(process, until)
        if output is None or len(output) > OUTPUT_BYTES_MAX:
            how = (
                f"took longer than {COMMAND_S:g} s" if output is None else f"wrote more than {OUTPUT_BYTES_MAX} bytes"
            )
            return Failure(f"{_quoted(command)} {how}", passing=True)
        code = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Failure(f"{_quoted(command)} took longer than {COMMAND_S:g} s", passing=True)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    if code:
        return Failure(f"{_quoted(command)} ended with exit code {code}", passing=True)
    return output.decode("utf-8", "replace").strip()


def _read(process: subprocess.Popen[bytes], until: float) -> bytes | None:
    """The output, a little more than OUTPUT_BYTES_MAX of it; None: it did not end in time."""
    assert process.stdout is not None
    reader, output = select.poll(), bytearray()
    reader.register(process.stdout)
    while len(output) <= OUTPUT_BYTES_MAX:
        left_s = until - time.monotonic()
        if left_s <= 0 or not reader.poll(left_s * 1000):
            return None
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            break
        output += piece
    return bytes(output)


def groups_in(text: str, where: str) -> dict[str, str] | Failure:
    """The groups of lines `name: nodes`; `#` begins a comment, and lines of one name are united."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].strip()
        name, colon, nodes = words.partition(":")
        if words and not (colon and is_group_name(name.strip())):
            return Failure(f"{where}:{number}: {_quoted(words)} is no group: write rack1: node[1-4]")
        if words:
            known = found.get(name.strip())
            found[name.strip()] = nodes.strip() if known is None else f"{known},{nodes.strip()}"
    return found


def _file(path: Path) -> Listed:
    def read() -> Mapping[str, str] | Failure:
        from subord.config.source import ConfigError, text_of

        try:
            text = text_of(str(path), "groups", "correct the file", OUTPUT_BYTES_MAX)
        except ConfigError as error:
            return Failure(str(error))
        return groups_in(text, str(path))

    return Listed(read)


class _ClusterShell(NamedTuple):
    """What its directory says. `default`: the source of groups without one, or ""; `failures`: files not read."""

    sources: dict[str, Source]
    default: str
    failures: tuple[str, ...]


class Groups:
    """All groups of this host; an instance is the function that `algebra.steps_of` takes.

    A group without a source is one of subord's file where that exists, else of ClusterShell's default source.
    """

    def __init__(self, file: str, folder: str, others: Mapping[str, Source]) -> None:
        self._file, self._folder, self._others = Path(file), Path(folder), others
        self._own = _file(self._file)
        self._texts: dict[tuple[str, str], str] = {}
        self._found: _ClusterShell | None = None

    def __call__(self, source: str | None, group: str) -> tuple[str, str]:
        name = self.default() if source is None else source
        if (name, group) not in self._texts:
            self._texts[name, group] = self._text(name, group)
        return name, self._texts[name, group]

    def sources(self) -> dict[str, Source]:
        """All sources by name. Raises NodeSetError."""
        own = {OWN: self._own} if self._file.exists() else {}
        return {**self._others, **self._clustershell().sources, **own}

    def default(self) -> str:
        """The source of a group without one. Raises NodeSetError."""
        default = self.default_or_none()
        if default is None:
            raise NodeSetError(f"there are no groups here: write {self._file}, or {self._folder / 'groups.conf'}")
        return default

    def default_or_none(self) -> str | None:
        """As `default`, and None if there are no groups."""
        return OWN if self._file.exists() else self._clustershell().default or None

    def _text(self, name: str, group: str) -> str:
        # A mistake in the configuration of ClusterShell does not touch subord's own groups.
        source = self._own if name == OWN and self._file.exists() else self.sources().get(name)
        if source is None:
            known = ", ".join(sorted(self.sources())) or "none"
            failures = "".join(f"; {each}" for each in self._clustershell().failures)
            raise NodeSetError(f"there is no source {name!r} of groups, only: {known}{failures}")
        text = source.nodes(group)
        if isinstance(text, Failure):
            raise NodeSetError(text.text, passing=text.passing)
        if text is None:
            raise NodeSetError(f"there is no group @{name}:{group}")
        return text

    def _clustershell(self) -> _ClusterShell:
        if self._found is None:
            self._found = _sources_of(self._folder)
        return self._found


def _sources_of(folder: Path) -> _ClusterShell:
    sources: dict[str, Source] = {path.stem: _file(path) for path in sorted(folder.glob("groups.d/*.cfg"))}
    if (folder / "groups").exists():  # the name of local.cfg before ClusterShell 1.7
        sources["local"] = _file(folder / "groups")
    main = _parsed(folder / "groups.conf")
    commands: dict[str, Source] = {}
    options = dict(main["Main"]) if main.has_section("Main") else {}

    def paths(names: str, form: str) -> list[Path]:
        try:
            words = shlex.split(names)
        except ValueError as error:
            raise NodeSetError(f"{folder / 'groups.conf'}: {names}: {error}") from None
        folders = [Path(Template(each).safe_substitute(CFGDIR=folder)) for each in words]
        return [path for each in dict.fromkeys(folders) for path in sorted(each.glob(form))]

    for path in paths(options.get("groupsdir", options.get("confdir", "")), "*.conf"):
        commands |= _sections(_parsed(path), path.parent)
    failures = []
    for path in paths(options.get("autodir", "$CFGDIR/groups.d"), "*.yaml"):
        found = _yaml(path)
        if isinstance(found, Failure):
            failures.append(found.text)
        else:
            commands |= found
    commands |= _sections(main, folder)
    sources |= commands
    first = next(iter(commands or sources), "")
    default = options.get("default", "") or ("local" if "local" in sources and not commands else first)
    return _ClusterShell(sources, default, tuple(failures))


def _parsed(path: Path) -> ConfigParser:
    """Raises NodeSetError. A file that is missing, or that this user may not read, has no sources."""
    from configparser import ConfigParser
    from configparser import Error as ParserError

    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (ParserError, UnicodeDecodeError) as error:
        raise NodeSetError(f"{path}: {' '.join(str(error).split())}") from None
    return parser


def _yaml(path: Path) -> dict[str, Source] | Failure:
    """The sources of one file."""
    from subord.client.node_sets.yaml_groups import NotReadError, sources_in
    from subord.config.source import ConfigError, text_of

    try:
        sources = sources_in(text_of(str(path), "groups", "correct the file", OUTPUT_BYTES_MAX))
    except ConfigError as error:
        return Failure(str(error))
    except NotReadError as error:
        return Failure(f"{path}:{error}")
    return {name: Listed(partial(dict, groups)) for name, groups in sources.items()}


def _sections(parser: ConfigParser, folder: Path) -> dict[str, Source]:
    """The sources of one file; `[a,b]` are two with the same commands."""
    return {
        name.strip(): Commands(name.strip(), dict(parser[section]), str(folder))
        for section in parser.sections()
        if section != "Main"
        for name in section.split(",")
    }


def _quoted(command: str) -> str:
    line = " ".join(command.split())
    return repr(line if len(line) <= 100 else line[:97] + "...")
