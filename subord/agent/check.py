"""`subord-agent --check`: whether this node is ready to carry out orders, file by file.

Input is the configuration; output are lines of text, and whether there is no fault. Nothing is changed, and no daemon
is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from subord.agent import policy
from subord.agent.journal import Journal, JournalError
from subord.config.schema import Config, ElasticConfig, MachinesConfig, SharesConfig, TransferConfig
from subord.runtime.net.interfaces import InterfaceError, choose
from subord.runtime.security import allowed_signers, operators_file
from subord.runtime.security.allowed_signers import Signer

Line = tuple[str, bool]
"""A text, and whether it is no fault."""


def lines(config: Config) -> Iterator[Line]:
    """What is found, in the order of an order: node, operators, policy, journal; then what services need."""
    yield _node(config)
    yield _operators(config.node.operators)
    yield _policy(config.agent.policy)
    yield _journal(config.agent.state_directory)
    if config.shares.classes:
        yield _shares(config.shares)
    if config.elastic != ElasticConfig():
        from subord.agent import check_elastic  # noqa: PLC0415 - few nodes are of such a cluster

        yield from check_elastic.lines(config)
    if config.machines != MachinesConfig():
        from subord.agent import check_machines  # noqa: PLC0415 - few nodes are of such a cluster

        yield from check_machines.lines(config)
    if config.transfer != TransferConfig():
        from subord.agent import check_transfer  # noqa: PLC0415 - few nodes are transfer hosts

        yield from check_transfer.lines(config)


def _node(config: Config) -> Line:
    network = config.cluster.network
    try:
        chosen = choose(network, config.node.interface or None, config.node.address or None)
    except InterfaceError as error:
        return f"node: {error}", False
    return f"node: {chosen}, position {network.position_of(chosen.address)}", True


def _operators(path: str) -> Line:
    with operators_file.opened(path) as file:
        if file.word:
            return f"operators: {path}: {file.detail}", False
        found = allowed_signers.parse(operators_file.read(file))
    signers = [each for each in found if isinstance(each, Signer)]
    return f"operators: {path}: {len(signers)} lines name operators", bool(signers)


def _policy(path: str) -> Line:
    with operators_file.opened(path) as file:
        if file.word:
            return f"policy: {path}: {file.detail}", False
        text = operators_file.read(file)
    try:
        rules = len(policy.parse(text).allow)
    except policy.PolicyError as error:
        return f"policy: {path}: {error}", False
    return f"policy: {path}: {rules} rules", bool(rules)


def _journal(directory: str) -> Line:
    try:
        Journal(directory).check()
    except JournalError as error:
        return f"journal: {error}", False
    return f"journal: {directory}: ok", True


def _shares(config: SharesConfig) -> Line:
    from subord.services.shares.actuators.overview import overview  # noqa: PLC0415 - few nodes have classes

    text, is_sound = overview(config)
    return f"shares: {text}", is_sound
