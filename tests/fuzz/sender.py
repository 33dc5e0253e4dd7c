"""Sends malformed datagrams to a real daemon, no faster than it reads them, and prints their numbers.

    python tests/fuzz/sender.py TARGET SOURCE COUNT SEED       prints {"malformed": 812, ...} as JSON

Only datagrams that the decoder reports as a fault are sent, so the daemon must count exactly the same. After every
BATCH datagrams the program asks for advice and waits for the answer: then all datagrams before it have been read.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from subord.core.messages import Advice, Ask, Refuse, Terms
from subord.wire.codec import Fault, decode, encode
from tests.fuzz import corpus

PORT = 7117
BATCH = 40
ANSWERS_MAX = 200  # read while waiting for the right one, which others precede
WAIT_S = 20.0


def main(target: str, source: str, count: int, seed: int) -> None:
    chance = Random(seed)
    sent: Counter[str] = Counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, PORT))
        sock.settimeout(WAIT_S)
        while sent.total() < count:
            _, data = corpus.spoiled(chance)
            fault = decode(data)
            if not isinstance(fault, Fault):
                continue
            sock.sendto(data, (target, PORT))
            sent[fault.value] += 1
            if sent.total() % BATCH == 0 or sent.total() == count:
                ask(sock, target, sent.total())
    print(json.dumps(sent))


def ask(sock: socket.socket, target: str, exchange: int) -> None:
    network = target.rpartition(".")[0] + ".0/24"
    sock.sendto(encode(Ask(1, exchange, Terms(network, 8, 8, "ip", "complete", "lab"))), (target, PORT))
    for _ in range(ANSWERS_MAX):
        answer = decode(sock.recv(2000))
        if isinstance(answer, Advice | Refuse) and answer.exchange == exchange:
            return
    sys.exit(f"no answer to question {exchange}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
