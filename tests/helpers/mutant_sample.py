"""The mutants of subord/core and subord/sealing, and the sample of them that is tried.

Input are the modules and mutmut's mutations, which it lists in the order of the text. Left out, and counted, are
statements of modules and classes (mutmut itself skips them: constants, declared fields, types), the inside of a
`raise` (error texts), and string literals with a space (sentences). By mutmut's own rule decorated functions other
than static and class methods, annotations and docstrings make no mutants.

A mutant is identified by its file, its function and its number within the function, and the sample takes the lowest
hashes of these and of the seed. Invariant: the same sources and seed give the same sample; a smaller sample is the
beginning of a larger one; an edit of one function changes only the mutants of that function.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDERS = ("core", "sealing")
OUTSIDE = "statements of modules and classes: constants, declared fields, types"
ERRORS = "inside a `raise`: texts of errors"
SENTENCES = "string literals with a space: sentences for people"


@dataclass(frozen=True)
class Mutant:
    """`before` became `after` in line `line` of `function` of `file`, which is below subord/."""

    file: str
    function: str
    number: int  # among the mutants of the function
    line: int
    before: str
    after: str
    code: str  # of the whole file

    @property
    def key(self) -> tuple[str, str, int]:
        return self.file, self.function, self.number


@dataclass(frozen=True)
class Candidate:
    """A mutant without its text. `path` is the source; `mutation` is mutmut's."""

    path: Path
    file: str
    function: str
    number: int
    module: Any
    mutation: Any

    def rank(self, seed: int) -> str:
        return hashlib.sha256(f"{seed}:{self.file}:{self.function}:{self.number}".encode()).hexdigest()


def modules(top: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (top / "subord" / folder).rglob("*.py"))


def sampled(found: Sequence[Candidate], size: int, seed: int) -> list[Mutant]:
    """The first `size` by hash. A mutation that changes no text is skipped."""
    chosen: list[Mutant] = []
    for each in sorted(found, key=lambda candidate: candidate.rank(seed)):
        if len(chosen) == size:
            break
        made = _made(each)
        if made is not None:
            chosen.append(made)
    return chosen


def candidates(top: Path, paths: Sequence[Path], left_out: Counter[str]) -> list[Candidate]:
    """Of all these modules; excluded mutants are counted by reason."""
    return [each for path in paths for each in _of_module(top, path, left_out)]


def _of_module(top: Path, path: Path, left_out: Counter[str]) -> Iterator[Candidate]:
    import libcst
    from mutmut.mutation.file_mutation import create_mutations

    before = Path.cwd()
    os.chdir(top)  # where mutmut reads its settings
    try:
        module, found, _, _ = create_mutations(str(path), path.read_text(encoding="utf-8"))
    finally:
        os.chdir(before)
    names, errors = _functions(module), _inside_raise(module)
    numbers: Counter[str] = Counter()
    for mutation in found:
        inside = mutation.contained_by_top_level_function
        if not isinstance(inside, libcst.FunctionDef):
            left_out[OUTSIDE] += 1
        elif mutation.original_node in errors:
            left_out[ERRORS] += 1
        elif isinstance(mutation.original_node, libcst.BaseString) and " " in mutation.original_node.value:
            left_out[SENTENCES] += 1
        else:
            name = names[inside]
            yield Candidate(path, str(path.relative_to(top / "subord")), name, numbers[name], module, mutation)
            numbers[name] += 1


def _functions(module: Any) -> dict[Any, str]:
    """Each function of the module and each method of its classes, with its name."""
    import libcst

    found: dict[Any, str] = {}
    for each in module.body:
        if isinstance(each, libcst.FunctionDef):
            found[each] = each.name.value
        elif isinstance(each, libcst.ClassDef) and isinstance(each.body, libcst.IndentedBlock):
            methods = (inner for inner in each.body.body if isinstance(inner, libcst.FunctionDef))
            found |= {inner: f"{each.name.value}.{inner.name.value}" for inner in methods}
    return found


def _inside_raise(module: Any) -> set[Any]:
    """libcst compares nodes by identity."""
    import libcst

    found: set[Any] = set()
    stack = [(module, False)]
    while stack:
        node, inside = stack.pop()
        inside = inside or isinstance(node, libcst.Raise)
        if inside:
            found.add(node)
        stack.extend((child, inside) for child in node.children)
    return found


def _made(candidate: Candidate) -> Mutant | None:
    """None: the text is the same."""
    from mutmut.mutation.file_mutation import deep_replace

    mutation = candidate.mutation
    changed: Any = deep_replace(candidate.module, mutation.original_node, mutation.mutated_node)
    difference = changes(candidate.module.code, changed.code)
    if difference is None:
        return None
    line, before, after = difference
    return Mutant(candidate.file, candidate.function, candidate.number, line, before, after, changed.code)


def changes(old: str, new: str) -> tuple[int, str, str] | None:
    """(number of the first changed line, the changed lines before, after); None: no change."""
    lines, others = old.splitlines(), new.splitlines()
    found = [each for each in difflib.SequenceMatcher(None, lines, others, False).get_opcodes() if each[0] != "equal"]
    if not found:
        return None
    first, last = found[0], found[-1]
    before, after = lines[first[1] : last[2]], others[first[3] : last[4]]
    return first[1] + 1, " ".join(map(str.strip, before)), " ".join(map(str.strip, after))
