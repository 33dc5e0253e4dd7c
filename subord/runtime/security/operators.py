"""Verifies the signatures of operators against the operators file of this node, as OpenSSH's ssh-keygen does.

Inputs are a content, its signature, a namespace and the time of signing; output is a verdict with a word of
core/carriage/verdicts.py. A plain signature of Ed25519 is accepted in this process (plain_signature.py). All others,
and every refusal, are decided by ssh-keygen, in two processes or more, one after the other. Invariants: nothing is
accepted that `ssh-keygen -Y verify` does not accept for a principal of this file; time, rate, memory and the number
of processes are bounded, whatever neighbours send. The false signatures of one neighbour take at most FALSE_PER_S of
the PER_S verifications, so genuine orders of the others are not refused.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

import trio

from subord.core.carriage.orders import Verdict
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.tables import BoundedMap
from subord.runtime.security import allowed_signers, plain_signature
from subord.runtime.security.operators_file import DEFAULT, OperatorsFile, opened, read
from subord.runtime.security.sshsig import PublicKey, SshsigError, signature_of

logger = logging.getLogger("subord")

SSH_KEYGEN: Final = "ssh-keygen"
PROCESS_S_MAX: Final = 5.0
PER_S, BURST = 5.0, 20.0
"""Verifications by ssh-keygen; one takes some 10 ms (docs/security.md)."""
PLAIN_PER_S, PLAIN_BURST = 100.0, 200.0
"""In this process; one takes some 0.1 ms. Beyond it ssh-keygen decides."""
FALSE_PER_S, FALSE_BURST = 1.0, 10
"""Of one neighbour, or of the control socket; then what it offers is not verified."""
SOURCES_MAX: Final = 1024
WAITING_MAX: Final = 20
CACHED_MAX: Final = 1024
REFUSED_S: Final = 60.0
"""A refusal is checked again after this time."""
PASSING: Final = ("busy", "no_ssh_keygen")
"""Refusals that say nothing of the order."""
TIME_S_MIN, TIME_S_MAX = 1, 253_370_764_800
"""Before the year 9999. 0 would mean now to ssh-keygen."""
NO_USER: Final = b"No user exists"  # ssh-keygen needs an entry of its user in passwd(5)
_EXPIRED: Final = (b"has expired", b"not yet valid")


class _RefusedError(Exception):
    """The word of the verdict."""

    @property
    def word(self) -> str:
        return str(self.args[0])


class _Given(NamedTuple):
    """What is verified."""

    content: bytes
    signature: bytes
    namespace: str
    at_ms: int

    @property
    def at_s(self) -> int:
        """The time of signing as ssh-keygen takes it."""
        return min(max(self.at_ms // 1000, TIME_S_MIN), TIME_S_MAX)


class _Order(NamedTuple):
    """The same for ssh-keygen. `path`: of the signature, for programs that inherit `descriptors`."""

    content: bytes
    namespace: str
    time: str
    signers: str
    path: str
    descriptors: tuple[int, ...]


class Operators:
    """A `Verifier` (core/carriage/orders.py)."""

    def __init__(
        self,
        path: str = DEFAULT,
        *,
        program: str = SSH_KEYGEN,
        process_s_max: float = PROCESS_S_MAX,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        """`path`: of the operators file, which is read for each verification."""
        self.path = path
        self._program = program
        self._process_s_max = process_s_max
        self._clock = clock
        self._bucket = TokenBucket(PER_S, clock(), BURST)
        self._plain_bucket = TokenBucket(PLAIN_PER_S, clock(), PLAIN_BURST)
        self._turn = trio.Lock()
        self._revoked: frozenset[str] = frozenset()
        self._verdicts: BoundedMap[bytes, tuple[Verdict, float]] = BoundedMap(CACHED_MAX)
        self._false_until: BoundedMap[str, float] = BoundedMap(SOURCES_MAX)  # grows by 1 / FALSE_PER_S each time

    def revoke(self, names: Collection[str]) -> None:
        """From now on these principals and fingerprints count no more, and no others are revoked."""
        if self._revoked != frozenset(names):
            self._revoked = frozenset(names)
            self._verdicts.clear()

    def revoked_keys(self) -> frozenset[str]:
        """The fingerprints of the keys that the operators file gives to a revoked principal."""
        if not self._revoked:
            return frozenset()
        with opened(self.path) as file:
            return frozenset() if file.word else self._keys_of_revoked(file)

    def _keys_of_revoked(self, file: OperatorsFile) -> frozenset[str]:
        return allowed_signers.keys_of(allowed_signers.parse(read(file)), self._revoked)

    def sizes(self) -> dict[str, int]:
        """Entries by table."""
        return {"verdicts": len(self._verdicts), "false_signers": len(self._false_until)}

    async def verify(self, content: bytes, signature: bytes, namespace: str, at_ms: int, source: str = "") -> Verdict:
        """Whether an operator of this node has signed `content` for `namespace`, with a key valid at `at_ms`."""
        if not signature:
            return Verdict("unsigned")
        given = _Given(content, signature, namespace, at_ms)
        with opened(self.path) as file:
            if file.word:
                return Verdict(file.word)
            name = _digest(content, signature, namespace.encode(), str((at_ms, file.identity)).encode())
            return (
                self._known(name)
                or self._at_once(name, file, given, source)
                or (await self._in_turn(name, file, given, source))
            )

    def _known(self, name: bytes) -> Verdict | None:
        verdict, until = self._verdicts.get(name, (None, 0.0))
        return verdict if self._clock() < until else None

    def _keep(self, name: bytes, verdict: Verdict, source: str) -> None:
        if verdict.word not in PASSING:
            self._verdicts[name] = verdict, self._clock() + REFUSED_S if verdict.word else inf
        if verdict.word not in ("", *PASSING):
            now = self._clock()
            self._false_until[source] = max(self._false_until.get(source, now), now) + 1 / FALSE_PER_S

    def _at_once(self, name: bytes, file: OperatorsFile, given: _Given, source: str) -> Verdict | None:
        """Of a plain signature that is genuine; None: ssh-keygen decides."""
        if self._has_used_its_share(source) or not self._plain_bucket.admit(self._clock()):
            return None
        found = plain_signature.signer_of(given.signature, given.content, given.namespace, read(file), given.at_s)
        if found is None:
            return None
        verdict = self._accepted(file, found.fingerprint, found.principals)
        self._keep(name, verdict, source)
        return verdict

    def _accepted(self, file: OperatorsFile, fingerprint: str, principals: Sequence[str]) -> Verdict:
        """The verdict on a genuine signature of a key with these names."""
        is_revoked = not self._revoked.isdisjoint((fingerprint, *principals))
        # The names are those of the first line with the key.
        is_revoked = is_revoked or (bool(self._revoked) and fingerprint in self._keys_of_revoked(file))
        return Verdict("revoked" if is_revoked else "", principals[0], fingerprint)

    async def _in_turn(self, name: bytes, file: OperatorsFile, given: _Given, source: str) -> Verdict:
        if self._turn.statistics().tasks_waiting >= WAITING_MAX:
            return Verdict("busy")
        async with self._turn:
            known = self._known(name)  # another neighbour may have offered the same
            if known is not None:
                return known
            if self._has_used_its_share(source) or not self._bucket.admit(self._clock()):
                return Verdict("busy")
            revoked = self._revoked
            verdict = await self._verdict(file, given)
            if revoked is self._revoked:
                self._keep(name, verdict, source)
            return verdict

    def _has_used_its_share(self, source: str) -> bool:
        """Whether the neighbour has offered so many false signatures that the next one must wait."""
        until = self._false_until.get(source, 0.0)
        return until - self._clock() > (FALSE_BURST - 1) / FALSE_PER_S

    async def _verdict(self, file: OperatorsFile, given: _Given) -> Verdict:
        """As ssh-keygen decides."""
        key: PublicKey | None = None
        try:
            stated = signature_of(given.signature)
            key = stated.key
            if stated.namespace != given.namespace:
                raise _RefusedError("wrong_namespace")
            with _in_memory(given.signature) as descriptor:
                path, inherited = f"/proc/self/fd/{descriptor}", (file.descriptor, descriptor)
                order = _Order(given.content, given.namespace, _time(given.at_s), file.path, path, inherited)
                principals = await self._principals(order, key, given.at_ms)
                await self._verify(order, principals[0])
        except SshsigError:
            return Verdict("altered")
        except _RefusedError as error:
            return Verdict(error.word, fingerprint=key.fingerprint if key else "")
        return self._accepted(file, key.fingerprint, principals)

    async def _principals(self, order: _Order, key: PublicKey, at_ms: int) -> list[str]:
        """The names of the key in the operators file, at least one."""
        code, said, complaint = await self._run(order, "find-principals", "-f", order.signers)
        principals = [line.decode("utf-8", "replace") for line in said.splitlines() if line]
        if code == 0 and principals:
            return principals
        is_certified = not key.is_certificate or key.valid_after <= at_ms / 1000 <= key.valid_before
        is_expired = not is_certified or any(each in complaint for each in _EXPIRED)
        raise _RefusedError("key_expired" if is_expired else "unknown_principal")

    async def _verify(self, order: _Order, principal: str) -> None:
        words = ("-f", order.signers, "-I", principal, "-n", order.namespace)
        code, _, _ = await self._run(order, "verify", *words)
        if code:
            code, _, _ = await self._run(order, "check-novalidate", "-n", order.namespace)
            raise _RefusedError("altered" if code else "not_permitted")

    async def _run(self, order: _Order, action: str, *words: str) -> tuple[int, bytes, bytes]:
        """Exit code, output and complaint of ssh-keygen. Raises _RefusedError."""
        command = [self._program, "-Y", action, *words, "-s", order.path, "-O", f"verify-time={order.time}"]
        with trio.move_on_after(self._process_s_max):
            try:
                ran = await trio.run_process(
                    command,
                    stdin=order.content,
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    pass_fds=order.descriptors,
                    deliver_cancel=_kill,
                    env={**os.environ, "LC_ALL": "C"},
                )
            except OSError as error:
                logger.debug("%s cannot be started: %s", self._program, error.strerror)
                raise _RefusedError("no_ssh_keygen") from None
            if ran.returncode:
                logger.debug("%s -Y %s says: %.200r", self._program, action, ran.stderr)
            if ran.returncode < 0 or NO_USER in ran.stderr:
                raise _RefusedError("no_ssh_keygen")
            return ran.returncode, ran.stdout, ran.stderr
        raise _RefusedError("busy")


async def _kill(process: trio.Process) -> None:
    process.kill()


def _digest(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.digest()


def _time(at_s: int) -> str:
    """As ssh-keygen reads it, in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d%H%M%SZ")


@contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """A descriptor to read `data` from: ssh-keygen takes signatures from files, and no disk is needed for it."""
    descriptor = os.memfd_create("signature", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)
