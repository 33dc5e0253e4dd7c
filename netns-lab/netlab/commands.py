"""The command line of the lab: parse, call, print."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from netlab import babble, client, enter, figures, keeper, lab, stabilise
from netlab import layout as layouts
from netlab.errors import LabError
from netlab.events import Cluster, EventLog
from netlab.launch import Leash
from netlab.options import Options
from netlab.terminal import Terminal

PIPE_CLOSED = 141  # 128 + SIGPIPE, as `subord` does
RUN_EXIT_CODES = """\
exit codes (those of `subord simulate` differ, see docs/scenarios.md):
    0  everything held
    1  a file or the lab is at fault
    2  the command line is wrong
    3  an expectation did not hold
    4  cannot be played here; nothing was started
  130  interrupted (Ctrl-C)
"""
DESCRIPTION = "A cluster of real subord daemons on this machine, each in a network namespace of its own."


def main(arguments: Sequence[str]) -> int:
    """Exit codes: 0 done; 1 not, with one line why; 2 mistyped; 3 the daemons did not do what was expected;
    4 a scenario that cannot be played here; 130 Ctrl-C; 141 the reader of the output went away.
    """
    if arguments[:1] == ["keep"]:  # the lab calls itself: see launch.py
        return keeper.keep(Options.from_json(arguments[1]))
    if arguments[:1] == ["babble"]:  # and again, inside a node's namespace: see babblers.py
        return babble.babble(arguments[1])
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    try:
        return _called(given)
    except BrokenPipeError:
        if not (gone := [stream for stream in (sys.stdout, sys.stderr) if _is_reader_gone(stream)]):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:  # what is still buffered goes nowhere
            os.dup2(nowhere, stream.fileno())
        return PIPE_CLOSED


def _is_reader_gone(stream: TextIO) -> bool:
    """Of a pipe; what is no pipe has no reader that could go."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(what & select.POLLERR for _, what in poll.poll(0))


def _called(given: argparse.Namespace) -> int:
    """What was asked for, and an exit code for what we expect to go wrong."""
    try:
        code: int = given.call(given)
        sys.stdout.flush()
    except LabError as reason:
        print(f"\n{reason}" if sys.stderr.isatty() else str(reason), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; everything the lab had made is gone.", file=sys.stderr)
        return 130
    return code


def _terminated(number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does: by way of every `with` and `finally`."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def up(given: argparse.Namespace) -> int:
    """Raise a lab, start all nodes; stay in the background, or in the foreground until Ctrl-C."""
    terminal = Terminal()
    options = _options(given, given.name, tuple(layouts.addresses(given.layout, given.nodes, given.network)))
    leash = Leash(options, terminal.progress)
    try:
        with client.Client(leash.directory) as controller:
            positions = [layouts.position_of(address, given.network) for address in options.addresses]
            by_position = dict(zip(positions, options.addresses, strict=True))
            order = lab.start_order(positions, given.start, given.seed)
            terminal.progress("starting daemons", 0, 0)
            controller.ask("start", addresses=[by_position[position] for position in order])
        terminal.say(_how_to_use(options, leash))
        if given.foreground:
            terminal.say("Ctrl-C ends it.")
            return leash.wait()
        leash.release()
    except BaseException:
        leash.end()
        raise
    return 0


def _how_to_use(options: Options, leash: Leash) -> str:
    name = "" if options.name == "lab" else f" --name {options.name}"
    some = layouts.position_of(options.addresses[len(options.addresses) // 2], options.network)
    return (
        f"{len(options.addresses)} nodes are running. Files: {leash.directory.path}\n"
        f"  netns-lab/lab tree{name}                        the tree\n"
        f"  netns-lab/lab status{name}                      what the event log says\n"
        f"  netns-lab/lab exec{name} {some} -- subord status     a command on a node (position or address)\n"
        f"  netns-lab/lab kill{name} {some}                      kill -9; `--signal 15` says goodbye\n"
        f"  netns-lab/lab start{name} {some}                     start it again\n"
        f"  netns-lab/lab down{name}                        end everything"
    )


def down(given: argparse.Namespace) -> int:
    """End a lab and wait until it has cleaned up."""
    with client.attach(given.name) as controller:
        controller.end()
    print(f"The lab {given.name} is gone.")
    return 0


def status(given: argparse.Namespace) -> int:
    """What the event log and the controller know, without asking a daemon."""
    with client.attach(given.name) as controller:
        info = controller.ask("info")
    cluster = Cluster()
    log = EventLog(Path(info["events"]))
    while events := log.read():
        for event in events:
            cluster.apply(event)
    options = Options.from_json(info["options"])
    print(f"{lab.facts(cluster)} Depth {cluster.depth()}; network {options.network}, fan-out {options.fanout}.")
    for node in info["nodes"]:
        seen = cluster.nodes.get(node["address"])
        if node["pid"] is None:
            state = "not started" if node["exit_code"] is None else f"ended with {node['exit_code']}"
        elif seen is None or seen.place is None:
            state = "looking for its place"
        else:
            state = seen.place if seen.leader is None else f"{seen.place} of {seen.leader}"
        print(f"{node['position']:>6}  {node['address']:<15}  {node['pid'] or '-':>8}  {state}")
    return 0


def run(given: argparse.Namespace) -> int:
    """Run a command on a node."""
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        raise LabError("Which command? For example: netns-lab/lab exec 7 -- subord status")
    with client.attach(given.name) as controller:
        return enter.run_in(controller, given.node, command)


def tree(given: argparse.Namespace) -> int:
    """`subord tree`, on the first live node."""
    with client.attach(given.name) as controller:
        live = [node for node in controller.ask("info")["nodes"] if node["pid"] is not None]
        if not live:
            raise LabError("No node is running: `netns-lab/lab start NODE` starts one.")
        rest = given.options[1:] if given.options[:1] == ["--"] else given.options
        return enter.run_in(controller, live[0]["address"], ["subord", "tree", *rest])


def kill(given: argparse.Namespace) -> int:
    """Send a signal to a node's daemon."""
    with client.attach(given.name) as controller:
        node = enter.find_node(controller.ask("info"), given.node)
        controller.ask("signal", address=node["address"], signal=given.signal)
    return 0


def start(given: argparse.Namespace) -> int:
    """Start a node's daemon."""
    with client.attach(given.name) as controller:
        node = enter.find_node(controller.ask("info"), given.node)
        controller.ask("start", addresses=[node["address"]])
    return 0


def measured(given: argparse.Namespace) -> int:
    """Run the campaign and print the table."""
    terminal = Terminal()
    campaign = stabilise.Campaign(
        nodes=given.nodes,
        fanout=given.fanout,
        layout=given.layout,
        start=given.start,
        repeat=given.repeat,
        seed=given.seed,
        execute=given.execute,
        rest_s=given.rest,
        timeout_s=given.timeout,
        network=given.network,
        guest_slots=given.guest_slots,
        timing=given.timing,
        rootless=given.rootless,
        daemon=given.daemon,
    )
    for nodes in campaign.nodes:  # what cannot work shall be said before the first run
        layouts.addresses(campaign.layout, nodes, campaign.network)
    runs = stabilise.measure_all(campaign, given.json, terminal.progress, terminal.say)
    terminal.say(figures.table(runs))
    return 0 if all(found["stable"] for found in runs) else 3


def healed(given: argparse.Namespace) -> int:
    """Kill and restart daemons, print how the tree healed."""
    from netlab import healing

    terminal = Terminal()
    if given.json is not None:
        stabilise.check_writable(given.json)
    with lab.Lab(
        nodes=given.nodes, fanout=given.fanout, rootless=given.rootless, progress=terminal.progress
    ) as cluster:
        rows = healing.measure(cluster, ways=given.way, times=given.times, seed=given.seed, say=terminal.say)
    if given.json is not None:
        healing.write(given.json, rows, nodes=given.nodes, fanout=given.fanout)
    terminal.say(healing.table(rows))
    return 0


def soaked(given: argparse.Namespace) -> int:
    """Churn for a long time, print whether memory grows."""
    from netlab import soak

    terminal = Terminal()
    if given.json is not None:
        stabilise.check_writable(given.json)
    script = soak.script_of(given.nodes, given.fanout, given.minutes, given.percent_per_min, given.seed)

    def write(samples: list[soak.Sample], failure: str | None = None) -> None:
        if given.json is not None:
            soak.write_json(given.json, script, samples, failure)

    with lab.Lab(
        nodes=given.nodes, fanout=given.fanout, rootless=given.rootless, progress=terminal.progress
    ) as cluster:
        performance, samples = soak.soak(cluster, script, say=terminal.say, write=write)
    write(samples, performance.failure)
    for name, value in (("median", lambda s: s.resident_mib_median), ("root", lambda s: s.root_mib)):
        terminal.say(
            f"resident memory, {name}: {soak.growth_kib_per_min(samples, value):+.1f} KiB a minute, second half"
        )
    if performance.failure is not None:
        terminal.say(performance.failure)
        return 3
    return 0


def played(given: argparse.Namespace) -> int:
    """Play scenario files, print what was seen."""
    from netlab import playable, programme, report

    terminal = Terminal()
    try:
        pieces = programme.read(given.files, nodes=given.nodes, rootless=given.rootless)
    except playable.Unplayable as reason:
        print(reason, file=sys.stderr)
        return 4
    performances = programme.play_all(
        pieces,
        rootless=given.rootless,
        json_path=given.json,
        events=given.events,
        progress=terminal.progress,
        say=terminal.say,
    )
    terminal.say(report.table(performances))
    return 3 if any(each.failure is not None for each in performances) else 0


def demo(given: argparse.Namespace) -> int:
    """The story of `./dev demo`."""
    from netlab import demo as story

    return story.run(rootless=given.rootless)


def _options(given: argparse.Namespace, name: str, addresses: tuple[str, ...]) -> Options:
    return Options(
        name=name,
        addresses=addresses,
        network=given.network,
        fanout=given.fanout,
        guest_slots=given.guest_slots,
        timing=given.timing,
        execute=given.execute,
        rootless=given.rootless,
        daemon=None if given.daemon is None else str(Path(given.daemon).resolve()),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description=DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    found = _command(commands, "up", up, "raise a lab and leave it running")
    found.add_argument("--nodes", type=int, help="how many; with a layout file: the first of it")
    found.add_argument("--fanout", type=int, default=2, help="fan-out p")
    found.add_argument("--start", choices=ORDERS, default="together", help="order of starting")
    found.add_argument("--foreground", action="store_true", help="stay, and end the lab on Ctrl-C")
    _common(found)

    found = _command(
        commands, "stabilise", measured, "measure how fast a stable tree forms, and its cost", named=False
    )
    found.add_argument("--nodes", type=_numbers, required=True, metavar="N,N...")
    found.add_argument("--fanout", type=_numbers, default=(2,), metavar="P,P...")
    found.add_argument("--start", type=_orders, default=("together",), metavar="ORDER,...", help=", ".join(ORDERS))
    found.add_argument("--repeat", type=_positive, default=1, help="runs of each combination")
    found.add_argument(
        "--rest", type=float, default=10.0, metavar="SECONDS", help="how long to measure at rest; 0: not"
    )
    found.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="longest wait for stability")
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    _common(found)

    found = _command(commands, "heal", healed, "kill and restart daemons, measure how the tree heals", named=False)
    found.add_argument("--nodes", type=_positive, default=100, metavar="N")
    found.add_argument("--fanout", type=_positive, default=2, metavar="P")
    found.add_argument(
        "--way", type=_ways, default=("kill", "cut"), metavar="kill,cut", help="kill -9, or the cable too"
    )
    found.add_argument("--times", type=_positive, default=5, help="interior nodes per way; root and leaf once each")
    found.add_argument("--seed", type=int, default=1, help="chooses the victims")
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")

    _add_run(commands)
    _add_soak(commands)
    found = _command(commands, "demo", demo, "a cluster forms, loses a node and heals, in a minute", named=False)
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")
    _command(commands, "down", down, "end a lab")
    _command(commands, "status", status, "what the lab knows of its nodes")
    found = _command(commands, "tree", tree, "`subord tree` on the first live node")
    found.add_argument("options", nargs=argparse.REMAINDER, help="options of `subord tree`")
    found = _command(commands, "exec", run, "run a command on a node: exec NODE -- COMMAND...")
    found.add_argument("node", help="position or address")
    found.add_argument("command", nargs=argparse.REMAINDER)
    found = _command(commands, "kill", kill, "send a signal to a node's daemon")
    found.add_argument("node", help="position or address")
    found.add_argument("--signal", type=int, default=int(signal.SIGKILL), metavar="NUMBER")
    found = _command(commands, "start", start, "start a node's daemon")
    found.add_argument("node", help="position or address")
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(
        commands, "run", played, "play scenario files with real daemons", named=False, after=RUN_EXIT_CODES
    )
    found.add_argument("files", type=Path, nargs="+", metavar="FILE.toml", help="such as netns-lab/scenarios/*.toml")
    found.add_argument("--nodes", type=_positive, metavar="N", help="in the place of the files' `cluster.nodes`")
    found.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen there")
    found.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each scenario there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")


def _add_soak(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(commands, "soak", soaked, "churn for a long time, measure whether memory grows", named=False)
    found.add_argument("--nodes", type=_positive, default=100, metavar="N")
    found.add_argument("--fanout", type=_positive, default=2, metavar="P")
    found.add_argument("--minutes", type=_positive, default=30)
    found.add_argument("--percent-per-min", type=float, default=10.0, metavar="SHARE", help="nodes ended a minute")
    found.add_argument("--seed", type=int, default=1, help="chooses the victims")
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    call: Callable[[argparse.Namespace], int],
    text: str,
    *,
    named: bool = True,
    after: str | None = None,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=text, description=text, epilog=after, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(call=call)
    if named:
        parser.add_argument("--name", default="lab", help="which lab, when there are several")
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--layout", default="dense", help="`dense` (from position 1), or a file with one address a line"
    )
    parser.add_argument("--network", default="10.0.0.0/16", help="IPv4 block of the cluster")
    parser.add_argument("--guest-slots", type=int, help="default: the daemon's")
    parser.add_argument("--timing", choices=("lan", "wan", "lab"), default="lan", help="timing preset of the daemons")
    parser.add_argument("--seed", type=int, default=1, help="of the random start order")
    parser.add_argument(
        "--exec", dest="execute", action="store_true", help="execute `subord run` per node, do not fork"
    )
    parser.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")
    parser.add_argument("--daemon", metavar="FILE", help="a Python file whose main(argv) takes the place of subord")


ORDERS = ("together", "random", "reverse")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


def _ways(text: str) -> tuple[str, ...]:
    for part in text.split(","):
        if part not in ("kill", "cut"):
            raise argparse.ArgumentTypeError(f"`{part}`: choose from kill, cut")
    return tuple(text.split(","))


def _orders(text: str) -> tuple[str, ...]:
    for part in text.split(","):
        if part not in ORDERS:
            raise argparse.ArgumentTypeError(f"`{part}`: choose from {', '.join(ORDERS)}")
    return tuple(text.split(","))
