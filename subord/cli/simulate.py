"""`subord simulate`: faults on a simulated cluster, from a scenario file or from a seed. No daemon is asked.

The word `shares` in place of a file is another simulation (simulate_shares.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr

if TYPE_CHECKING:
    from subord.core.mapping.registry import MappingName
    from subord.sim.campaign import Verdict
    from subord.sim.draw.aim import Aim
    from subord.sim.player import Played
    from subord.sim.scenario.definition import Scenario

PROGRESS_S = 15.0  # between two lines without a terminal
NUMBER_MAX = 10**18 - 1  # of seeds, as in a scenario file
AIMED = ("fanout", "guest-slots", "nodes", "kinds", "services", "rounds")
SHARES = "shares"
"""In place of a scenario file; a file of this name is `./shares`."""
OF_SHARES = ("figure", "policy", "skewed")
STANDARD_OUTPUT = Path("-")
"""`--json` without a file."""
DESCRIPTION = """\
Play a scenario in the simulator: the protocol of the daemon, a simulated network, virtual time.

Safety is checked at every event. After the last step all faults are mended, and the tree must become whole and
stable within a bound (docs/protocol.md, section 8). The same seed gives the same run on any machine.
"""
ABOUT_SHARES = """\
`subord simulate shares` divides simulated nodes among classes of work, as in the experiments of Li and Parker,
"Cluster Resource Management: A Scalable Approach", and prints the usage of each class (docs/evaluation/shares.md)"""
EXAMPLES = """\
examples:
  subord simulate netns-lab/scenarios/root_dies.toml     a scenario file
  subord simulate --seed 7 --trace                       a drawn one, line by line
  subord simulate --seed 7 --write > seed-7.toml         the file that it stands for
  subord simulate --seeds 200                            seeds 0 to 199, on all processors
  subord simulate --seeds 200 --mapping latency          the same, and nodes move from site to site
  subord simulate --seeds 200 --fanout 8 --nodes 20-72 --guest-slots 1 --kinds leave,kill
  subord simulate shares --figure 5 --seeds 6 --json     shares of classes, figure 5 of a paper

exit codes (those of `netns-lab/lab run` differ, see docs/scenarios.md):
    0  all expectations and invariants held
    1  an expectation or an invariant did not hold
    2  the file or the command line is wrong; nothing was started
  130  interrupted (Ctrl-C)
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "simulate",
        help="play failures on a simulated cluster",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="a scenario file (docs/scenarios.md), or the word `shares`: see below"
    )
    parser.add_argument("--seed", type=_natural, metavar="N", help="the scenario that this seed draws")
    parser.add_argument(
        "--seeds", type=_natural, metavar="COUNT", help="a campaign of COUNT seeds; of shares, default: 6"
    )
    parser.add_argument(
        "--mapping",
        choices=("ip", "performance", "latency"),
        help="with seeds: the mapping, and the changes that belong to it; default: ip",
    )
    parser.add_argument("--fanout", type=_natural, metavar="N", help="with seeds: 2 to 1024; default: by the seed")
    parser.add_argument(
        "--guest-slots", type=_natural, metavar="N", help="with seeds: 1 to 1024; default: by the seed"
    )
    parser.add_argument(
        "--nodes", type=_size, metavar="N[-M]", help="with seeds: the number of nodes; default: by the seed"
    )
    parser.add_argument(
        "--kinds", metavar="NAMES", help="with seeds: the kinds of faults, such as kill,leave; a wrong name lists all"
    )
    parser.add_argument(
        "--services",
        action="store_true",
        help="with seeds: orders while the faults happen (docs/protocol/carriage.md); small clusters",
    )
    parser.add_argument(
        "--rounds",
        action="store_true",
        help="with seeds: ten orders of `subord exec` that append a line on each node, each with a fault",
    )
    parser.add_argument("--first", type=_natural, metavar="N", help="the first seed of --seeds; default: 0")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=STANDARD_OUTPUT,
        metavar="FILE",
        help="write the result of a campaign there; of shares, default: print it",
    )
    parser.add_argument("--jobs", type=_natural, metavar="N", help="processes of a campaign; default: all processors")
    parser.add_argument("--trace", action="store_true", help="print all events except the routine ones")
    parser.add_argument("--write", action="store_true", help="print the scenario as a file, and play nothing")
    shares = parser.add_argument_group(SHARES, ABOUT_SHARES)
    shares.add_argument("--figure", type=int, metavar="N", help="the figure of the paper, 3 to 8")
    shares.add_argument("--policy", choices=("bank", "reserves"), help="how leaders divide nodes; default: bank")
    shares.add_argument("--skewed", action="store_true", help="each node and leader reports at a time of its own")


def _natural(text: str) -> int:
    from subord.config.source import cut

    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{cut(text)} is no natural number")
    if len(text.lstrip("0")) > len(str(NUMBER_MAX)):
        raise argparse.ArgumentTypeError(f"{cut(text)} is too large: at most {NUMBER_MAX}")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    fewest, _, most = text.partition("-")
    return _natural(fewest), _natural(most or fewest)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0: everything held; 1: something did not."""
    if arguments.file == SHARES:
        from subord.cli import simulate_shares

        _check_first(arguments, arguments.seeds or simulate_shares.SEEDS)
        others = ("seed", "mapping", *AIMED, "jobs", "trace", "write")
        return simulate_shares.run(arguments, others, prints_json=arguments.json == STANDARD_OUTPUT)
    _check(arguments)
    if arguments.seeds is not None:
        return _campaign(arguments)
    script = _script(arguments)
    if arguments.write:
        from subord.sim.scenario import written

        print(written.write(script), end="")
        return exit_codes.OK
    return _play(script, arguments)


def _check(given: argparse.Namespace) -> None:
    """Options that contradict each other are errors. Raises CommandError."""
    if given.trace and given.write:
        raise _usage_error("--trace prints a run and --write plays nothing: give one of them")
    is_file, is_campaign = given.file is not None, given.seeds is not None
    if is_file + is_campaign + (given.seed is not None) != 1:
        raise _usage_error("give a scenario file, --seed N or --seeds COUNT, and only one of them")
    for is_wrong, names, why in (
        (True, OF_SHARES, f"belongs to `subord simulate {SHARES}`: leave it out"),
        (is_file, ("mapping",), "goes with --seed or --seeds: a file has `mapping` in its cluster"),
        (is_file, AIMED, "goes with --seed or --seeds: a file has all settings itself"),
        (not is_campaign, ("first", "jobs", "json"), "belongs to a campaign: add --seeds COUNT, or leave it out"),
        (is_campaign, ("trace", "write"), "is for one scenario, not for --seeds: give --seed N"),
    ):
        for name in names if is_wrong else ():
            value = getattr(given, name.replace("-", "_"))
            if value is not None and value is not False:  # 0 is a value
                raise _usage_error(f"--{name} {why}")
    if not is_campaign:
        return
    from subord.sim.campaign import JOBS_MAX, SEEDS_MAX

    if not 1 <= given.seeds <= SEEDS_MAX:
        raise _usage_error(f"--seeds {given.seeds}: a campaign has 1 to {SEEDS_MAX} seeds")
    if given.jobs is not None and not 1 <= given.jobs <= JOBS_MAX:
        raise _usage_error(f"--jobs {given.jobs}: 1 to {JOBS_MAX} processes")
    if given.json == STANDARD_OUTPUT:
        raise _usage_error("--json of a campaign needs a file: --json FILE")
    _check_first(given, given.seeds)


def _check_first(given: argparse.Namespace, seeds: int) -> None:
    if (given.first or 0) + seeds - 1 > NUMBER_MAX:
        raise _usage_error(f"--first {given.first}: the last seed would be above {NUMBER_MAX}")


def _aim(given: argparse.Namespace) -> Aim:
    """Raises CommandError."""
    from subord.config.source import quoted
    from subord.sim.draw.aim import FANOUT_MAX, NODES_MAX, Aim
    from subord.sim.draw.kinds import KINDS

    for name, value, least in (("fanout", given.fanout, 2), ("guest-slots", given.guest_slots, 1)):
        if value is not None and not least <= value <= FANOUT_MAX:
            raise _usage_error(f"--{name} {value}: {least} to {FANOUT_MAX}")
    if given.nodes is not None and not 2 <= given.nodes[0] <= given.nodes[1] <= NODES_MAX:
        raise _usage_error(f"--nodes {given.nodes[0]}-{given.nodes[1]}: 2 to {NODES_MAX}, the lower end first")
    kinds = () if given.kinds is None else tuple(dict.fromkeys(given.kinds.split(",")))
    for kind in kinds:
        if kind not in KINDS:
            raise _usage_error(f"--kinds: no kind {quoted(kind)}; kinds: {', '.join(KINDS)}")
    return Aim(
        fanout=given.fanout,
        guest_slots=given.guest_slots,
        nodes=given.nodes,
        kinds=kinds,
        services=given.services,
        rounds=given.rounds,
    )


def _usage_error(text: str) -> CommandError:
    return CommandError(f"{text}. Nothing was started.", exit_codes.USAGE)


def _script(arguments: argparse.Namespace) -> Scenario:
    from subord.sim.draw.seed import draw
    from subord.sim.scenario.definition import ScenarioError
    from subord.sim.scenario.file import load

    if arguments.file is None:
        return draw(arguments.seed, arguments.mapping or "ip", _aim(arguments))
    try:
        return load(arguments.file)
    except ScenarioError as reason:
        raise CommandError(str(reason), exit_codes.USAGE) from None


def _play(script: Scenario, arguments: argparse.Namespace) -> int:
    from subord.sim.campaign import player
    from subord.sim.player import Play
    from subord.sim.services.scripted import attach
    from subord.sim.trace import Trace
    from subord.sim.violation import Violation

    play = player(script, _aim(arguments))
    if isinstance(play, Play):
        attach(play)
    if arguments.trace:
        play.trace(Trace(play.world, print).line)
    try:
        played = play.run()
    except Violation as violation:
        print(f"{script.title}: {violation}")
        if not arguments.trace:
            print(f"to see it: {_command(arguments)}")
        return exit_codes.NOT_REACHED
    for line in _result_lines(script, played):
        print(line)
    return exit_codes.OK


def _result_lines(script: Scenario, played: Played) -> list[str]:
    from subord.sim.checkers.metrics import percentile
    from subord.sim.scenario.definition import folded

    lines = [script.title]
    for seen in played.seen:
        worst = percentile(seen.attached_s, 0.99)
        orphans = "" if worst is None else f", {len(seen.attached_s)} orphans attached within {worst:.2f} s"
        moved = f" ({folded(seen.moved)})" if seen.moved else ""
        lines.append(f"  {seen.at_s:8.2f} s  whole after {seen.whole_s:.2f} s, {seen.moves} moves{moved}{orphans}")
    healed = played.healed
    lines.append(f"  {played.lasted_s:8.2f} s  at rest; settled {healed.settled_s:.2f} s after the last fault,")
    lines.append(f"              {healed.bound_s:.0f} s are allowed; {played.events} events, all checks held")
    return lines


def _command(arguments: argparse.Namespace) -> str:
    """The command that prints the same run with all its lines."""
    if arguments.file is None:
        from subord.sim.campaign import replay

        return replay(arguments.seed, arguments.mapping or "ip", _aim(arguments))
    if not arguments.file.isprintable():
        return "the same command with --trace"
    name = f"./{arguments.file}" if arguments.file.startswith("-") else arguments.file
    import shlex

    return f"subord simulate {shlex.quote(name)} --trace"


class _Progress:
    """Prints failures on standard output, and progress on standard error: one changing line, or a few."""

    def __init__(self, count: int, mapping: MappingName, aim: Aim) -> None:
        self._count = count
        self._mapping: MappingName = mapping
        self._aim = aim
        self._is_terminal = sys.stderr.isatty()
        self._written_at = time.monotonic()
        self.done = 0
        self.failed: list[int] = []

    def report(self, verdicts: list[Verdict]) -> None:
        from subord.sim import campaign

        self.done += len(verdicts)
        for each in (verdict for verdict in verdicts if verdict.broken):
            self.failed.append(each.seed)
            self.clear()
            again = campaign.replay(each.seed, self._mapping, self._aim)
            print(f"seed {each.seed}: {each.text}\n  {again}", flush=True)
        if self._is_terminal or time.monotonic() - self._written_at > PROGRESS_S or self.done == self._count:
            self._written_at = time.monotonic()
            self.clear()
            end = "" if self._is_terminal else "\n"
            to_stderr(f"{self.done} of {self._count} seeds, {len(self.failed)} failed", end)

    def clear(self) -> None:
        """Clears the progress line before other output."""
        if self._is_terminal:
            to_stderr("\r\x1b[K", end="")

    def stopped(self) -> str:
        which = f": {' '.join(map(str, self.failed))}" if self.failed else ""
        return f"Stopped: {self.done} of {self._count} seeds done, {len(self.failed)} failed{which}"


def _campaign(arguments: argparse.Namespace) -> int:
    from concurrent.futures.process import BrokenProcessPool

    from subord.sim import campaign, tally

    first, count = arguments.first or 0, arguments.seeds
    mapping: MappingName = arguments.mapping or "ip"
    aim = _aim(arguments)
    progress = _Progress(count, mapping, aim)
    try:
        seeds = range(first, first + count)
        summary = campaign.run(seeds, mapping=mapping, aim=aim, jobs=arguments.jobs, tell=progress.report)
    except KeyboardInterrupt:
        progress.clear()
        print(progress.stopped())
        return exit_codes.INTERRUPTED
    except BrokenProcessPool:
        progress.clear()
        what = "a process of the campaign was killed, perhaps for lack of memory: try fewer --jobs"
        raise CommandError(f"{what}. {progress.stopped()}", exit_codes.TRY_AGAIN) from None
    progress.clear()
    print("\n".join(campaign.totals(summary)))
    if arguments.json is not None:
        _write_json(arguments.json, tally.document(summary, first, arguments.jobs))
    return exit_codes.NOT_REACHED if summary.failed else exit_codes.OK


def _write_json(path: Path, document: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as reason:
        raise CommandError(
            f"--json {path}: {reason.strerror}; the campaign itself is above", exit_codes.OUTPUT
        ) from None
