"""The writers of `evaluate accounting`: what they do with each answer, and that each record is given."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from netlab.accounting import writers
from netlab.accounting.writers import UNREACHABLE, UNSURE, Task, Writers, Writing, body, give
from netlab.common.waiting import wait_until

from subord.client.errors import CommandError
from subord.services.account.record import read

Record = dict[str, Any]
WAIT_S = 20.0


@contextmanager
def answering(path: Path, answers: Callable[[bytes], bytes | None]) -> Iterator[list[bytes]]:
    """A daemon at this socket; the bodies that came. `answers`: what it answers to a body; None: it breaks off."""
    bodies: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            bodies.append(self.rfile.read(length))
            if (answer := answers(bodies[-1])) is not None:
                self.wfile.write(answer)

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield bodies
        server.shutdown()


def http(status: str, document: object) -> bytes:
    text = json.dumps(document).encode()
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(text), text)


def accepts(request: bytes) -> bytes:
    return http("200 OK", {"accepted": len(json.loads(request))})


def numbers_of(request: bytes) -> list[int]:
    jobs = [read(each["body"].encode()) for each in json.loads(request)]
    return [int(each.id) for each in jobs if each is not None]


@pytest.mark.parametrize(("records", "nodes", "size"), [(1000, 3, 50), (101, 7, 10), (5, 10, 2)])
def test_each_record_is_in_one_request_of_one_writer(records: int, nodes: int, size: int) -> None:
    task = Task(["socket"] * nodes, records, 10.0, size)
    requests = [request for writer in range(nodes) for request in task.requests_of(writer)]
    found = [number for request in requests for number in task.numbers(request)]
    assert sorted(found) == list(range(records))
    assert task.due_s(1) == size / 10.0
    assert task.due_s(max(requests)) < task.writes_s == records / 10.0


def test_records_are_jobs_that_a_report_can_read() -> None:
    assert numbers_of(body(range(7, 57), 1e9)) == list(range(7, 57))
    assert body(range(9), 1e9) == body(range(9), 1e9)


def test_what_became_of_a_request(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert give(str(path), b"[]") == UNREACHABLE
    with answering(path, accepts):
        assert give(str(path), body(range(3), 1e9)) == writers.ACCEPTED
    path.unlink()
    assert give(str(path), b"[]") == UNREACHABLE
    with answering(path, lambda _: None):
        assert give(str(path), b"[]") == UNSURE
    path.unlink()
    with answering(path, lambda _: http("507 Full", {"error": "the spool is full"})):
        assert give(str(path), b"[]") == "the spool is full"
    path.unlink()
    with (
        answering(path, lambda _: http("400 Bad", {"error": "no list"})),
        pytest.raises(CommandError, match="no list"),
    ):
        give(str(path), b"[]")


def written(writing: Writing, at: float = 0.0) -> Record:
    writing.begin(at)
    assert wait_until(lambda: writing.told()["left"] == 0, WAIT_S, 0.02)
    return writing.told()


def test_a_request_is_given_again_with_the_same_records_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "RETRY_S", 0.01)
    path = tmp_path / "socket"
    full = http("507 Full", {"error": "full"})
    refusals: list[bytes | None] = [None, full]

    def answer(request: bytes) -> bytes | None:
        return refusals.pop(0) if numbers_of(request)[0] == 4 and refusals else accepts(request)

    with answering(path, answer) as bodies:
        found = written(Writing(Task([str(path)], 10, 1e6, 4)))
    assert [numbers_of(each) for each in bodies] == [[0, 1, 2, 3], *[[4, 5, 6, 7]] * 3, [8, 9]]
    assert bodies[1] == bodies[2] == bodies[3]
    assert (found["accepted"], found["unsure"], found["failed"]) == (10, [1], [])
    assert found["refused"] == {UNSURE: 1, "full": 1}


def test_a_writer_that_is_refused_for_good_says_why(tmp_path: Path) -> None:
    with answering(tmp_path / "socket", lambda _: http("403 Forbidden", {"error": "only root"})):
        found = written(Writing(Task([str(tmp_path / "socket")], 10, 1e6, 4)))
    assert (found["accepted"], found["failed"]) == (0, ["only root"])


@pytest.mark.slow
def test_the_process_of_the_writers_goes_on_without_the_daemon(tmp_path: Path) -> None:
    """It begins before there is one, and the first answer is lost."""
    path = tmp_path / "socket"
    lost: list[range] = []

    def answer(request: bytes) -> bytes | None:
        if lost:
            return accepts(request)
        lost.append(range(numbers_of(request)[0], numbers_of(request)[0] + 10))
        return None

    with Writers(Task([str(path)] * 3, 100, 1e6, 10)) as writers:
        assert wait_until(lambda: writers.look().refused, WAIT_S, 0.05)
        with answering(path, answer) as bodies:
            assert wait_until(lambda: writers.look().is_over, WAIT_S, 0.05)
        found = writers.look()
    assert (found.accepted, found.unsure, found.refused[UNSURE]) == (100, frozenset(lost[0]), 1)
    assert sorted(number for each in bodies for number in numbers_of(each)) == sorted([*range(100), *lost[0]])
