"""A stand-in for subord: forms the computed tree of a dense network with one exchange a node, and says so.

Position 1 is the root. Every other node asks its computed leader over UDP ("hello"), then tells the root
("here"), which counts the roster. Events and counters are those of the real daemon, so the lab cannot tell the
difference.
"""

import functools
import ipaddress
import json
import os
import sys
import time
import tomllib

import trio

RETRY_S = 0.2


class Node:
    def __init__(self, config):
        cluster, node = config["cluster"], config["node"]
        network = ipaddress.IPv4Network(cluster["network"])
        self.address = node["address"]
        self.port = cluster["port"]
        self.control_socket = node["control_socket"]
        self.position = int(ipaddress.IPv4Address(self.address)) - int(network.network_address)
        self.root = str(network.network_address + 1)
        self.leader = str(network.network_address + (self.position - 2) // cluster["fanout"] + 1)
        self.log = os.open(node["event_log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.roster = {self.address}
        self.answers = {}
        self.sent = 0

    def event(self, name, **fields):
        line = {"mono": time.monotonic(), "wall": time.time(), "node": self.address, "event": name, **fields}
        os.write(self.log, json.dumps(line).encode() + b"\n")

    async def run(self):
        self.socket = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
        await self.socket.bind((self.address, self.port))
        self.event("started", pid=os.getpid(), position=self.position, incarnation=time.time_ns())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listen)
            if self.position == 1:
                self.event("place", place="root", leader=None, old=None, changes=0, reason="lowest")
                self.event("roster", nodes=1, not_home=0)
            else:
                await self.ask(self.leader, b"hello")
                self.event("place", place="home", leader=self.leader, old=None, changes=0, reason="accepted")
                await self.ask(self.root, b"here")
            self.event("ready")
            nursery.start_soon(self.serve_counters)

    async def ask(self, address, word):
        answered = self.answers[word] = trio.Event()
        while not answered.is_set():
            await self.send(word, (address, self.port))
            with trio.move_on_after(RETRY_S):
                await answered.wait()

    async def send(self, word, address):
        try:
            await self.socket.sendto(word, address)
            self.sent += 1
        except OSError:
            await trio.lowlevel.checkpoint()

    async def listen(self):
        while True:
            try:
                word, sender = await self.socket.recvfrom(64)
            except OSError:
                continue
            if word.startswith(b"ok "):
                self.answers[word[3:]].set()
                continue
            if word == b"here" and sender[0] not in self.roster:
                self.roster.add(sender[0])
                self.event("roster", nodes=len(self.roster), not_home=0)
            await self.send(b"ok " + word, sender)

    async def serve_counters(self):
        with trio.socket.socket(trio.socket.AF_UNIX) as listener:
            await listener.bind(self.control_socket)
            listener.listen(8)
            async with trio.open_nursery() as nursery:
                while True:
                    stream, _ = await listener.accept()
                    nursery.start_soon(self.answer, trio.SocketStream(stream))

    async def answer(self, stream):
        async with stream:
            await stream.receive_some(4096)
            body = json.dumps({"exchanges": int(self.position > 1), "messages_sent": {"any": self.sent}}).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
            await stream.send_all(head + body)


def main(argv):
    assert argv[:2] == ["run", "--config"]
    with open(argv[2], "rb") as file:
        node = Node(tomllib.load(file))
    if os.path.exists(node.control_socket):
        os.unlink(node.control_socket)
    trio.run(functools.partial(node.run))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
