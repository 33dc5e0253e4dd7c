"""`subord simulate`: disasters on a pretended cluster, from a file or from a seed. No daemon is asked."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from subord.cli import exit_codes
from subord.cli.errors import CommandError

if TYPE_CHECKING:
    from subord.sim.campaign import Verdict
    from subord.sim.play import Played
    from subord.sim.scenario import Scenario

PROGRESS_S = 15.0  # between two lines when nobody sits at a terminal
REPORT_LINES = 4
DESCRIPTION = """\
Play a scenario in the simulator: the same protocol as in the daemon, a pretended network, virtual time.

Safety is checked at every event; when all steps are done everything is mended, and the tree must become
whole and quiet within a bound (docs/protocol.md, section 8). The same seed gives the same run on any machine.
"""
EXAMPLES = """\
examples:
  subord simulate netns-lab/scenarios/root_dies.toml     a scenario file
  subord simulate --seed 7 --trace                       a drawn one, line by line
  subord simulate --seed 7 --write > seed-7.toml         the file that it stands for
  subord simulate --seeds 200                            seeds 0 to 199, on all processors
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "simulate",
        help="play disasters on a pretended cluster",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", metavar="FILE", help="a scenario file")
    what.add_argument("--seed", type=_natural, metavar="N", help="the scenario that this seed draws")
    what.add_argument("--seeds", type=_natural, metavar="COUNT", help="a campaign of so many seeds")
    parser.add_argument("--first", type=_natural, metavar="N", default=0, help="the first seed of a campaign")
    parser.add_argument("--jobs", type=_natural, metavar="N", help="processes of a campaign; default: all processors")
    parser.add_argument("--trace", action="store_true", help="print everything that happens, without the routine")
    parser.add_argument("--write", action="store_true", help="print the scenario as a file, and play nothing")


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text} is no natural number")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0: everything held; 1: something did not."""
    if arguments.seeds is not None:
        return _campaign(arguments)
    script = _script(arguments)
    if arguments.write:
        from subord.sim import scenario

        print(scenario.write(script), end="")
        return exit_codes.OK
    return _play(script, arguments)


def _script(arguments: argparse.Namespace) -> Scenario:
    from subord.sim import scenario
    from subord.sim.draw import draw

    if arguments.file is None:
        return draw(arguments.seed)
    try:
        return scenario.read(Path(arguments.file).read_text())
    except OSError as reason:
        raise CommandError(f"{arguments.file}: {reason.strerror}", exit_codes.USAGE) from None
    except (UnicodeDecodeError, scenario.ScenarioError) as reason:
        raise CommandError(f"{arguments.file}: {reason}", exit_codes.USAGE) from None


def _play(script: Scenario, arguments: argparse.Namespace) -> int:
    from subord.sim.play import Play
    from subord.sim.safety import Violation
    from subord.sim.scenario import ScenarioError
    from subord.sim.trace import Trace

    try:
        play = Play(script)
    except ScenarioError as reason:
        raise CommandError(f"{arguments.file}: {reason}", exit_codes.USAGE) from None
    if arguments.trace:
        play.say = Trace(play.world, print).line
    try:
        played = play.run()
    except Violation as violation:
        print(f"{script.title}: {violation}")
        if not arguments.trace:
            again = arguments.file or f"--seed {arguments.seed}"
            print(f"to see it: subord simulate {again} --trace")
        return exit_codes.NOT_REACHED
    for line in _told(script, played):
        print(line)
    return exit_codes.OK


def _told(script: Scenario, played: Played) -> list[str]:
    from subord.sim.scenario import folded
    from subord.sim.seen import percentile

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


def _campaign(arguments: argparse.Namespace) -> int:
    from subord.sim import campaign

    count, done, failed, told_at = arguments.seeds, 0, 0, time.monotonic()

    def tell(news: list[Verdict]) -> None:
        nonlocal done, failed, told_at
        done += len(news)
        for each in (verdict for verdict in news if verdict.broken):
            failed += 1
            print(f"\rseed {each.seed}: {each.text}\n  {campaign.replay(each.seed)}", flush=True)
        if sys.stderr.isatty() or time.monotonic() - told_at > PROGRESS_S or done == count:
            told_at = time.monotonic()
            end = "" if sys.stderr.isatty() else "\n"
            print(f"\r{done} of {count} seeds, {failed} failed ", end=end, file=sys.stderr, flush=True)

    summary = campaign.run(range(arguments.first, arguments.first + count), jobs=arguments.jobs, tell=tell)
    print("\n".join(["", *campaign.report(summary)[-REPORT_LINES:]]))
    return exit_codes.NOT_REACHED if summary.failed else exit_codes.OK
