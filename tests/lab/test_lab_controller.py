"""What the controller knows of its nodes."""

import socket
import sys

import pytest
from netlab.common.json_lines import Lines, encode
from netlab.errors import LabError
from netlab.processes.controller import Controller
from netlab.processes.zygote import _load_agent
from netlab.processes.zygotes import Zygotes
from pyroute2.netlink.exceptions import NetlinkError


def zygotes_with(**sockets):
    zygotes = Zygotes({release: Lines(each) for release, each in sockets.items()}, old=["10.0.0.9"])
    zygotes.pids = {"10.0.0.1": 7}
    return zygotes


def test_an_exit_that_comes_in_one_piece_with_an_answer_is_heard():
    ours, zygote = socket.socketpair()
    with ours, zygote:
        zygotes = zygotes_with(present=ours)
        exited = encode({"exited": "10.0.0.1", "pid": 7, "code": 0})
        zygote.sendall(encode({"done": {"10.0.0.2": 8}}) + exited)
        assert zygotes.start([["10.0.0.2", "", 2]]) == {"10.0.0.2": 8}
        assert zygotes.pids == {"10.0.0.2": 8}


def test_exits_are_heard_before_a_start():
    ours, zygote = socket.socketpair()
    with ours, zygote:
        zygotes = zygotes_with(present=ours)
        zygote.sendall(encode({"exited": "10.0.0.1", "pid": 7, "code": 0}))
        zygotes.receive_exits()
        assert zygotes.pids == {}
        assert zygotes.exits == {"10.0.0.1": 0}


def test_an_exit_that_an_answer_has_brought_already_is_not_waited_for():
    """Both were readable in one turn of the loop: the controller would answer nothing until the next exit."""
    ours, zygote = socket.socketpair()
    with ours, zygote:
        ours.settimeout(1)
        zygotes = zygotes_with(present=ours)
        zygote.sendall(encode({"exited": "10.0.0.1", "pid": 7, "code": 0}) + encode({"done": {"10.0.0.2": 8}}))
        zygotes.signal("10.0.0.2", 9)
        zygotes.receive(zygotes.lines["present"])
        assert zygotes.exits == {"10.0.0.1": 0}


def test_each_release_is_asked_for_its_own():
    present, new = socket.socketpair()
    previous, old = socket.socketpair()
    with present, new, previous, old:
        zygotes = zygotes_with(present=present, previous=previous)
        nodes = [["10.0.0.9", "", 9], ["10.0.0.8", "", 8]]
        old.sendall(encode({"done": {"10.0.0.9": 1}}))
        new.sendall(encode({"done": {"10.0.0.8": 2}}))
        assert zygotes.start(nodes) == {"10.0.0.9": 1, "10.0.0.8": 2}
        assert Lines(old).receive() == [{"start": [nodes[0]]}]
        assert Lines(new).receive() == [{"start": [nodes[1]]}]
        new.sendall(encode({"done": {"10.0.0.9": 3}}))
        zygotes.assign(["10.0.0.9"], "present")
        assert zygotes.start([nodes[0]]) == {"10.0.0.9": 3}
        assert zygotes.release_of("10.0.0.9") == "present"


def test_a_release_that_the_lab_has_not_is_refused():
    ours, zygote = socket.socketpair()
    with ours, zygote, pytest.raises(LabError, match="This lab has no previous release"):
        zygotes_with(present=ours).assign(["10.0.0.8"], "previous")


def test_what_the_kernel_refuses_is_answered():
    """Or the asking process would see the end of the connection, and the whole lab would be gone."""

    def refuse():
        raise NetlinkError(16, "busy")

    controller = Controller.__new__(Controller)
    controller._do_cut = refuse
    assert controller._answer({"do": "cut"}) == {"error": "The lab could not cut: NetlinkError: (16, 'busy')."}


def test_a_zygote_loads_the_agent_with_all_services():
    """Also one whose agent only follows documents, and acts on no order."""
    _load_agent()
    assert {f"subord.services.{each}.agent" for each in ("exec", "files", "shares")} <= sys.modules.keys()
