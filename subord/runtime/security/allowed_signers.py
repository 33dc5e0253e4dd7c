"""The operators file: OpenSSH's allowed signers (ssh-keygen(1), ALLOWED SIGNERS), as subord understands it.

Input is the text of the file; output is what each line grants, or what is wrong with it. It explains: `operators.py`
has ssh-keygen itself decide. Invariant: a line without a fault is one that ssh-keygen reads, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

from subord.core.carriage.verdicts import POWERS, namespace_of
from subord.runtime.security.sshsig import FIELDS, SshsigError, decoded, public_key_of

LINES_MAX: Final = 4096
_OPTION = re.compile(r'([A-Za-z-]+)(?:="([^"]*)")?(?:,|\Z)')
_TIMES: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
PATTERN_CHARS: Final = frozenset("*?!")


class SignerError(ValueError):
    """What is wrong with a line; one clause."""


class Signer(NamedTuple):
    """What a line grants. Times are seconds since 1970. `namespaces` (): all."""

    line: int
    principals: tuple[str, ...]
    key_type: str
    fingerprint: str
    is_authority: bool = False
    namespaces: tuple[str, ...] = ()
    valid_after: float = 0.0
    valid_before: float = inf

    @property
    def powers(self) -> tuple[str, ...]:
        """What its orders may do."""
        return tuple(filter(self.may_sign, POWERS))

    def may_sign(self, power: str) -> bool:
        """`power`: also the name of a service, whose orders are signed."""
        return not self.namespaces or matches(self.namespaces, namespace_of(power))

    def is_valid(self, now_s: float) -> bool:
        return self.valid_after <= now_s <= self.valid_before


class Fault(NamedTuple):
    """A line that grants nothing."""

    line: int
    what: str


def parse(text: str) -> list[Signer | Fault]:
    """Each line that is no comment, in order."""
    found: list[Signer | Fault] = []
    for number, line in enumerate(text.splitlines()[:LINES_MAX], 1):
        content = line.strip(" \t")
        if not content or content.startswith("#"):
            continue
        try:
            found.append(_signer(number, content))
        except SignerError as error:
            found.append(Fault(number, str(error)))
    return found


def doubts(signer: Signer, services: Collection[str] = ()) -> Iterator[str]:
    """What a line without fault may not be meant to say. `services`: those with effects, whose orders are signed."""
    known = [namespace_of(each) for each in dict.fromkeys((*POWERS, *services))]
    if not signer.is_authority and any(PATTERN_CHARS & set(each) for each in signer.principals):
        yield "patterns as principals are for lines with cert-authority; orders of this key show the pattern"
    for each in signer.namespaces:
        if not each.startswith("!") and not any(matches((each,), name) for name in known):
            yield f"namespace {each!r} is none of subord: {', '.join(known)}"


def repeated(signers: list[Signer]) -> Iterator[tuple[Signer, Signer]]:
    """Lines whose key an earlier line has with other principals: ssh-keygen finds the earlier one only."""
    first: dict[tuple[str, bool], Signer] = {}
    for each in signers:
        earlier = first.setdefault((each.fingerprint, each.is_authority), each)
        if earlier.principals != each.principals:
            yield earlier, each


def keys_of(signers: list[Signer | Fault], names: Collection[str]) -> frozenset[str]:
    """The fingerprints of all keys that a line gives to one of these principals, beside whatever other names.

    Without those of authorities: the certificate has the names.
    """
    lines = (each for each in signers if isinstance(each, Signer) and not each.is_authority)
    return frozenset(each.fingerprint for each in lines if not set(each.principals).isdisjoint(names))


def matches(patterns: tuple[str, ...], text: str) -> bool:
    """Whether a pattern list has the text, as in ssh_config(5), PATTERNS: `*`, `?`, and `!` to except."""
    is_found = False
    for each in patterns:
        pattern = re.escape(each.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(pattern, text):
            if each.startswith("!"):
                return False
            is_found = True
    return is_found


def _signer(number: int, line: str) -> Signer:
    principals, rest = _principals(line)
    words = rest.split(None, 1)
    options = ""
    if not words or words[0] not in FIELDS:
        options, rest = _options(rest)
        words = rest.split(None, 1)
    if len(words) < 2 or words[0] not in FIELDS:
        kinds = ", ".join(FIELDS)
        raise SignerError(f"there is no key where it must stand, after principals and options; types are {kinds}")
    try:
        key = public_key_of(decoded(words[1].split()[0].encode()))
    except SshsigError as error:
        raise SignerError(f"the key is not readable: {error}") from None
    if key.key_type != words[0] or key.is_certificate:
        raise SignerError(f"the key is not of the type {words[0]} in front of it")
    return _with_options(Signer(number, principals, key.key_type, key.fingerprint), options)


def _principals(line: str) -> tuple[tuple[str, ...], str]:
    """The principals, and what is behind them."""
    if line.startswith('"'):
        name, quote, rest = line[1:].partition('"')
        if not quote:
            raise SignerError("the quotation mark of the principals has no end")
    else:
        name, _, rest = line.replace("\t", " ").partition(" ")
    principals = tuple(name.split(","))
    if not all(principals):
        raise SignerError("a principal is empty")
    return principals, rest.strip(" \t")


def _options(text: str) -> tuple[str, str]:
    """The options, which have spaces in quotation marks only, and what is behind them."""
    is_quoted = False
    for index, char in enumerate(text):
        is_quoted ^= char == '"'
        if char in " \t" and not is_quoted:
            return text[:index], text[index:].strip(" \t")
    return text, ""


def _with_options(signer: Signer, text: str) -> Signer:
    seen: set[str] = set()
    while text:
        found = _OPTION.match(text)
        if found is None:
            raise SignerError(f"the options are not readable from {text[:40]!r}; values stand in quotation marks")
        text, name, value = text[found.end() :], found[1].lower(), found[2]
        if name in seen:
            raise SignerError(f"the option {name} stands twice")
        seen.add(name)
        signer = _with_option(signer, name, value)
    if signer.valid_after >= signer.valid_before:
        raise SignerError("valid-before is not later than valid-after")
    return signer


def _with_option(signer: Signer, name: str, value: str | None) -> Signer:
    match name, value:
        case "cert-authority", None:
            return signer._replace(is_authority=True)
        case "namespaces", str(patterns) if patterns:
            return signer._replace(namespaces=tuple(patterns.split(",")))
        case "valid-after", str(at):
            return signer._replace(valid_after=_time(at))
        case "valid-before", str(at):
            return signer._replace(valid_before=_time(at))
        case (("namespaces" | "valid-after" | "valid-before" | "cert-authority"), _):
            form = name if name == "cert-authority" else f'{name}="..."'
            raise SignerError(f"the option {name} must be written {form}")
    raise SignerError(f"the option {name!r} is unknown")


def _time(text: str) -> float:
    """Seconds since 1970; without `Z` in the time zone of this host."""
    digits = text.removesuffix("Z")
    try:
        at = datetime.strptime(digits, _TIMES[len(digits)])  # noqa: DTZ007  # local time is meant
        return (at.replace(tzinfo=UTC) if text.endswith("Z") else at).timestamp()
    except (KeyError, ValueError, OverflowError):
        raise SignerError(f"{text[:40]!r} is no time such as 20271231 or 202712312359Z") from None
