"""What documents of operators change at a running node: which documents of a revoked operator go, and which stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from signers import Signers

from subord.core.address.network import Network
from subord.core.carriage.documents import NEVER_MS, REVOKED, STRICT, Document
from subord.core.carriage.orders import Verdict
from subord.core.identity.revocations import Entry
from subord.core.members.membership import DOCUMENTS, Membership
from subord.core.settings import Settings
from subord.runtime.security.effects import Effects
from subord.runtime.security.operators import Operators
from subord.runtime.security.peer_identity import PeerIdentities
from subord.runtime.state.memory import Memory

SETTINGS = Settings(network=Network.parse("10.0.0.0/24"))


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers(tmp_path)


class Held:
    """A node that holds documents of three keys, each under the first name of its line."""

    def __init__(self, signers: Signers) -> None:
        signers.write("admin,alice {alice}", "bob {bob}", "mallory {mallory}", "boss {mallory}")
        self.signers = signers
        self.membership: Membership = Memory("", SETTINGS).membership
        for name, principal, key in (("a", "admin", "alice"), ("b", "bob", "bob"), ("m", "mallory", "mallory")):
            self.take(f"maintain/{name}", principal, key)
        self.effects = self.started()

    def started(self) -> Effects:
        operators = Operators(str(self.signers.file))
        return Effects(self.membership, operators, None, PeerIdentities(), SETTINGS.network)

    def take(self, name: str, principal: str, key: str, body: bytes = b"") -> list[Document]:
        document = Document(name, 1, 1, NEVER_MS, body, b"signed")
        verdict = Verdict("", principal, self.signers.fingerprint(key))
        return self.membership.take_documents([(document, verdict)])

    def revoke(self, what: str, *, follows: bool = True) -> None:
        entry = Entry("operator", what, 0, "left", 1, "bob")
        order = self.membership.revocations.with_entry(entry, 1)
        assert order is not None
        signer = Verdict("", "bob", self.signers.fingerprint("bob"))
        taken = self.membership.take_documents([(Document(*order, b"signed"), signer)])
        if follows:
            self.effects.follow(taken)

    @property
    def names(self) -> set[str]:
        return set(self.membership.documents.by_name) - {REVOKED}


@pytest.mark.parametrize(
    ("what", "gone"),
    [
        ("admin", "maintain/a"),
        ("alice", "maintain/a"),
        ("bob", "maintain/b"),
        ("mallory", "maintain/m"),
        ("boss", "maintain/m"),
        ("carol", None),
    ],
)
async def test_documents_of_a_revoked_key_go_under_whatever_name_they_came(
    signers: Signers, what: str, gone: str | None
) -> None:
    held = Held(signers)
    before, changes = held.names, held.membership.exchange.changes[DOCUMENTS]
    held.revoke(what)
    assert held.names == before - {gone}
    assert (held.membership.exchange.changes[DOCUMENTS] > changes + 1) == (gone is not None), "neighbours are told"
    assert held.membership.documents.by_name[REVOKED].version == 1, "the list itself stays"


async def test_what_comes_after_the_list_goes_too(signers: Signers) -> None:
    """It was judged before, and took longer."""
    held = Held(signers)
    held.revoke("alice")
    taken = held.take(STRICT, "admin", "alice", b"\xc3")
    assert [each.name for each in taken] == [STRICT]
    held.effects.follow(taken)
    assert STRICT not in held.names


async def test_what_a_former_process_kept_goes_at_the_start(signers: Signers) -> None:
    held = Held(signers)
    held.revoke("boss", follows=False)
    assert "maintain/m" in held.names
    held.started()
    assert "maintain/m" not in held.names
