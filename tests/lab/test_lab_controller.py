"""What the controller knows of its nodes."""

import socket

from netlab.controller import Controller
from netlab.lines import Lines, encode
from pyroute2.netlink.exceptions import NetlinkError


def controller_with(zygote):
    controller = Controller.__new__(Controller)
    controller._zygote = Lines(zygote)
    controller._pids = {"10.0.0.1": 7}
    controller._exits = {}
    return controller


def test_an_exit_that_comes_in_one_piece_with_an_answer_is_heard():
    ours, zygote = socket.socketpair()
    with ours, zygote:
        controller = controller_with(ours)
        exited = encode({"exited": "10.0.0.1", "pid": 7, "code": 0})
        zygote.sendall(encode({"done": {"10.0.0.2": 8}}) + exited)
        assert controller._ask_zygote({"start": []}) == {"10.0.0.2": 8}
        assert controller._pids == {"10.0.0.2": 8}


def test_exits_are_heard_before_a_start():
    ours, zygote = socket.socketpair()
    with ours, zygote:
        controller = controller_with(ours)
        zygote.sendall(encode({"exited": "10.0.0.1", "pid": 7, "code": 0}))
        controller._hear_of_exits()
        assert controller._pids == {}
        assert controller._exits == {"10.0.0.1": 0}


def test_what_the_kernel_refuses_is_answered():
    """Or whoever asked would hear us hang up, and the whole lab would be gone."""

    def refuse(_request):
        raise NetlinkError(16, "busy")

    controller = controller_with(None)
    controller._do_cut = refuse
    assert controller._answer({"do": "cut"}) == {"error": "The lab could not cut: NetlinkError: (16, 'busy')."}
