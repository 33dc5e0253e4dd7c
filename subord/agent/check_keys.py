"""Whether a key of a node's configuration may sign what it has to, and nothing more: for `subord-agent --check`.

Inputs are the configuration and the key; outputs are faults. The key is looked up in the operators file and the
policy of this node, which all nodes of the cluster should have alike. Files with faults of their own have lines of
their own. All functions block.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from subord.agent import policy
from subord.agent.judge import ROOT
from subord.config.schema import Config
from subord.core.carriage.verdicts import namespace_of
from subord.runtime.security import allowed_signers, operators_file
from subord.runtime.security.allowed_signers import Signer

PLANS: Final = "plans"


class Key(NamedTuple):
    """`setting`: its name, `path`: of the private key. `needed`: services, and the users as which it orders them; the
    first one is that of the plan, which it must not sign."""

    setting: str
    path: str
    needed: tuple[tuple[str, str], ...]

    @property
    def namespaces(self) -> str:
        return ",".join(namespace_of(service) for service, _ in self.needed)


def key_faults(config: Config, key: Key) -> Iterator[str]:
    """None where there is no public key beside the private one."""
    fingerprint = _fingerprint(f"{key.path}.pub") if key.path else ""
    if not fingerprint:
        return
    operators = config.node.operators
    signer = next((each for each in _signers(operators) if each.fingerprint == fingerprint), None)
    if signer is None:
        yield (
            f"no line of {operators} has {key.setting} ({fingerprint}): add one on each node, with "
            f'namespaces="{key.namespaces}"'
        )
        return
    if signer.may_sign(PLANS):
        yield (
            f"line {signer.line} of {operators} lets {key.setting} sign plans, as operators do: write "
            f'namespaces="{key.namespaces}" there on each node'
        )
    missing = [service for service, _ in key.needed if not signer.may_sign(service)]
    if missing:
        names = ",".join(map(namespace_of, missing))
        yield f"line {signer.line} of {operators} does not give {key.setting} {names}: add it on each node"
    yield from _policy_faults(config.agent.policy, signer.principals, key)


def _policy_faults(path: str, principals: tuple[str, ...], key: Key) -> Iterator[str]:
    found = _policy(path)
    if found is None or any(set(each) & allowed_signers.PATTERN_CHARS for each in principals):
        return
    own, user_of_own = key.needed[0]
    for name in principals:
        for service, user in key.needed:
            if not found.allows(name, service, user):
                yield (
                    f'{path} does not allow {name}, the operator of {key.setting}, services = ["{service}"] with '
                    f'users = ["{user}"]: add it on each node'
                )
        if found.allows(name, own, ROOT):
            yield (
                f'{path} allows {name}, the operator of {key.setting}, services = ["{own}"] with users = ["{ROOT}"], '
                f'so the key could sign plans: leave users = ["{user_of_own}"] there on each node'
            )


def _fingerprint(path: str) -> str:
    """ "": there is no such public key."""
    try:
        blob = base64.b64decode(Path(path).read_text().split()[1], validate=True)
    except (OSError, ValueError, IndexError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _signers(path: str) -> list[Signer]:
    with operators_file.opened(path) as file:
        found = [] if file.word else allowed_signers.parse(operators_file.read(file))
    return [each for each in found if isinstance(each, Signer)]


def _policy(path: str) -> policy.Policy | None:
    """None: it has a fault."""
    with operators_file.opened(path) as file:
        text = "" if file.word else operators_file.read(file)
    try:
        return policy.parse(text) if text else None
    except policy.PolicyError:
        return None
