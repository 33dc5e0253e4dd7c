"""Listening sockets. Every failure is a `BindError` with one sentence for the operator.

The socket file of a daemon that has ended is replaced; one that a running daemon serves is left alone.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

PATH_BYTES_MAX = 107
"""sockaddr_un holds 108 bytes, the last of them zero (unix(7))."""
BACKLOG = 64
"""Connections that the kernel keeps waiting while `serve` is at its own limit."""
SOCKET_MODE = 0o660


class BindError(Exception):
    """The address cannot be listened on. The message is one sentence for the operator."""


def bind_unix(path: Path) -> socket.socket:
    """Listen on a Unix stream socket at `path`, mode 0660; a stale socket file is replaced. Raises `BindError`."""
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise BindError(
            f"the socket path {path} is longer than {PATH_BYTES_MAX} bytes, the limit of the kernel: "
            "choose a shorter one"
        )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear_stale(path)
        sock.bind(str(path))
        # Before listen() no process can connect, so the mode is never too wide.
        os.chmod(path, SOCKET_MODE)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise BindError(_unix_sentence(path, error)) from error
    except BindError:
        sock.close()
        raise
    return sock


def bind_tcp(address: str, port: int) -> socket.socket:
    """Listen on a TCP address (IPv4 or IPv6, numeric); port 0 lets the kernel choose. Raises `BindError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restarted daemon must not wait for the old connections' TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise BindError(_tcp_sentence(address, port, error)) from error
    return sock


def _clear_stale(path: Path) -> None:
    """Remove the socket file of a daemon that has ended. Raises `BindError` for any other file."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BindError(f"{path} exists and is no socket; it was left as it is: choose another socket path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A full backlog belongs to a running daemon too; do not wait for it.
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass
    raise BindError(f"another daemon answers at {path}; it was left alone: stop it or choose another socket path")


def unlink(path: str, inode: int) -> None:
    """Remove the control socket, unless another file has replaced it."""
    try:
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    except OSError:
        return  # the next daemon replaces a stale file


def _unix_sentence(path: Path, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"the directory {path.parent} of the control socket does not exist: create it or choose another"
        case errno.EACCES | errno.EPERM:
            return f"no permission to create the control socket {path}: grant it or choose another path"
        case errno.EROFS:
            return f"the control socket {path} lies on a read-only file system: choose another path"
        case errno.ENOSPC:
            return f"there is no space left to create the control socket {path}: make room or choose another path"
        case _:
            return f"cannot listen on the control socket {path}: {error.strerror or error}; choose another path"


def _tcp_sentence(address: str, port: int, error: OSError) -> str:
    place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    match error.errno:
        case errno.EADDRINUSE:
            return f"TCP {place} is taken by another program: stop it or choose another port"
        case errno.EADDRNOTAVAIL:
            return f"TCP {place}: this host has no address {address}: choose one that `ip address` shows"
        case errno.EACCES | errno.EPERM:
            return f"no permission to listen on TCP {place}: choose a port of 1024 or more"
        case _:
            return f"cannot listen on TCP {place}: {error.strerror or error}; choose another address or port"
