"""The keeper stays outside of the lab's namespaces, starts the controller and cleans up after it.

If the controller is killed, the kernel kills everything it started, and the keeper removes the directory and restores
the kernel's limits; if the keeper is killed, the controller gets a SIGTERM and does the same. Only if both are killed
at once a directory is left, and the next lab removes it.

When the keeper's standard input closes, the lab ends; the line "release" cancels that. Standard output carries JSON
lines: progress, ready, error.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import traceback

from netlab.common import linux
from netlab.common.json_lines import Message, encode
from netlab.common.linux import ENDING_SIGNALS
from netlab.errors import LabError
from netlab.processes import groups, rundir
from netlab.processes.controller import Controller
from netlab.processes.options import Options
from netlab.topology import neighbours
from netlab.topology.addresses import network_of, position_of, silent_below

ASK_AGAIN_S = 1.0
LOG_TAIL_CHARS = 4000


def keep(told: str) -> int:
    """Run one lab to its end, by options as JSON; exit code of the keeper process."""
    options = Options.from_json(told)
    # Blocked until a handler exists: a signal between two lines must not leave anything behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING_SIGNALS, signal.SIGCHLD))
    rootless = options.rootless or os.geteuid() != 0
    version = network_of(options.network).version
    table = neighbours.Table(version)
    try:
        directory = rundir.create(options.name, max(position_of(each, options.network) for each in options.addresses))
    except (LabError, OSError) as reason:
        report({"error": str(reason)})
        return 1
    try:
        linux.write_to(directory.log, 2)  # in the background there is no terminal to write to
        ask_by_arp = _room(table, options, version, rootless=rootless)
        linux.adopt_orphans()
        pid = os.fork()
        if pid == 0:
            os._exit(_control(options, directory, table, rootless=rootless, ask_by_arp=ask_by_arp))
        code = _await_end(pid)
        linux.end_all_below()
        if options.classes:
            groups.remove_left()
        if code != 0 and (complaints := directory.log.read_text(errors="replace")[-LOG_TAIL_CHARS:].strip()):
            report({"log": complaints})
        if code < 0:
            report({"error": "The lab's controller was killed: everything in it is gone, and cleaned up."})
    except LabError as reason:
        report({"error": str(reason)})
        return 1
    finally:
        table.restore()
        directory.remove()
    return 0 if code == 0 else 1


def report(message: Message) -> None:
    """To the process that started the keeper, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(1, encode(message))


def _room(table: neighbours.Table, options: Options, version: int, *, rootless: bool) -> bool:
    """Whether nodes may ask by ARP. Raises LabError when they must and cannot, or the size is out of reach."""
    nodes = len(options.addresses)
    silent = silent_below(options.addresses, options.network)
    if rootless:
        if neighbours.fits(nodes, neighbours.lasting_limits(version), silent):
            return True
    elif table.make_room(nodes, silent):
        return True
    if options.arp:
        raise LabError(neighbours.NO_ROOM_TO_ASK)
    neighbours.check_silent(nodes, silent)
    neighbours.check_permanent(nodes)
    return False


def _control(
    options: Options, directory: rundir.RunDirectory, table: neighbours.Table, *, rootless: bool, ask_by_arp: bool
) -> int:
    keeper = os.getppid()
    try:
        try:
            linux.enter_private(rootless=rootless)
        except OSError as reason:
            raise LabError(_why_no_namespaces(reason, rootless=rootless)) from None
        linux.die_with(keeper, signal.SIGTERM)
        linux.set_name("lab-controller")
        Controller(options, directory, ask_by_arp=ask_by_arp, report=report).run()
    except LabError as reason:
        report({"error": str(reason)})
        return 3
    except BaseException as reason:
        traceback.print_exc()
        report({"error": f"The lab failed and was taken down: {type(reason).__name__}: {reason}"})
        return 3
    finally:
        if os.getppid() != keeper:
            table.restore()
            directory.remove()
    return 0


def _why_no_namespaces(reason: OSError, *, rootless: bool) -> str:
    if rootless:
        return (
            f"This kernel does not let you make a user namespace ({reason}). Run the lab as root, or allow it"
            " (sysctl user.max_user_namespaces; on Debian and Ubuntu also kernel.unprivileged_userns_clone and"
            " kernel.apparmor_restrict_unprivileged_userns). Nothing was started."
        )
    return f"Root may not make namespaces here ({reason}): a container needs CAP_SYS_ADMIN. Nothing was started."


def _await_end(controller: int) -> int:
    """Wait for the end of the controller; ask it to end on a signal or when standard input closes.

    Its exit code; negative: the signal that killed it before it could clean up.
    """
    wakeup, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    for number in (*ENDING_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        with contextlib.suppress(OSError, ValueError):  # e.g. /dev/null cannot be waited for, nor does it close
            selector.register(0, selectors.EVENT_READ)
        ending = False
        while True:
            pid, status = os.waitpid(controller, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if ending:  # again, until it ends: what its handler raises can get lost where exceptions are ignored
                os.kill(controller, signal.SIGTERM)
            for key, _ in selector.select(ASK_AGAIN_S if ending else None):
                if key.fd == 0:
                    ending = ending or os.read(0, 64) != b"release\n"
                    selector.unregister(0)
                elif any(number in ENDING_SIGNALS for number in wakeup.recv(64)):
                    ending = True
