"""Several TLS records at one read, and what follows them: nothing, the end, or a fault."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import NamedTuple

import pytest

from subord.runtime.security.tls import Tls, certificates_of
from subord.sealing.keys import keyring_of, new_key

RECORD = 16_384


class Pair(NamedTuple):
    """`wire`: what the writer has sent."""

    writer: ssl.SSLObject
    reader: ssl.SSLObject
    wire: ssl.MemoryBIO
    came: ssl.MemoryBIO

    def carry(self, *, change: bool = False) -> None:
        """What is on the wire comes to the reader; with `change` its last byte is another one."""
        data = bytearray(self.wire.read())
        if change:
            data[-1] ^= 1
        self.came.write(data)


def pair() -> Pair:
    contexts = Tls(lambda: certificates_of(keyring_of(new_key()), "127.0.0.1")).contexts()
    name, client = next(iter(contexts.clients.items()))
    server = next(iter(contexts.servers.values()))
    wire, came, back = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO()
    writer = client.wrap_bio(back, wire, server_hostname=f"{name}.subord")
    found = Pair(writer, server.wrap_bio(came, back, server_side=True), wire, came)
    for each in 4 * (found.writer, found.reader):
        with suppress(ssl.SSLWantReadError):
            each.do_handshake()
        found.carry()
    return found


def test_one_read_gives_all_whole_records() -> None:
    ends = pair()
    content = bytes(range(256)) * (3 * RECORD // 256 + 1)
    ends.writer.write(content)
    ends.carry()
    assert ends.reader.read(65_536) == content
    with pytest.raises(ssl.SSLWantReadError):
        ends.reader.read(65_536)


def test_it_gives_no_more_than_was_asked_for() -> None:
    ends = pair()
    ends.writer.write(bytes(3 * RECORD))
    ends.carry()
    assert [len(ends.reader.read(RECORD + 1)) for _ in range(3)] == [RECORD + 1, RECORD + 1, RECORD - 2]


def test_into_a_buffer_goes_one_record() -> None:
    ends = pair()
    ends.writer.write(bytes(2 * RECORD))
    ends.carry()
    assert ends.reader.read(2 * RECORD, bytearray(2 * RECORD)) == RECORD


def test_a_fault_is_raised_after_what_came_before_it() -> None:
    ends = pair()
    ends.writer.write(bytes(RECORD))
    ends.carry()
    ends.writer.write(bytes(RECORD))
    ends.carry(change=True)
    assert ends.reader.read(65_536) == bytes(RECORD)
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        ends.reader.read(65_536)


def test_the_end_comes_after_what_came_before_it() -> None:
    ends = pair()
    ends.writer.write(bytes(RECORD))
    ends.carry()
    with pytest.raises(ssl.SSLWantReadError):
        ends.writer.unwrap()
    ends.carry()
    assert ends.reader.read(65_536) == bytes(RECORD)
    assert ends.reader.read(65_536) == b""


def test_a_stream_that_is_cut_off_is_no_end() -> None:
    ends = pair()
    ends.writer.write(bytes(RECORD))
    ends.carry()
    ends.came.write_eof()
    assert ends.reader.read(65_536) == bytes(RECORD)
    with pytest.raises(ssl.SSLEOFError):
        ends.reader.read(65_536)
