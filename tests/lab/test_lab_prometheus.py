"""`evaluate prometheus`: what it makes of the shipped files, and the real Prometheus with a small cluster."""

import json
import re
import shutil
import signal
import time

import pytest
import yaml

from .lab_helpers import netlab, run_lab, wait_until

pytestmark = pytest.mark.lab(few=True)


@pytest.mark.parametrize("name", ["prometheus.yml", "subord.rules.yml"])
def test_shortening_changes_durations_and_nothing_else(name):
    prometheus = netlab("peers.prometheus")
    text = (prometheus.FILES / name).read_text()
    short = prometheus.shortened(text, 5)
    assert prometheus.shortened(text, 1) == text != short
    durations = re.compile(r"\b\d+(ms|s|m|h|d)$|(?<=member_live\[)\d+(ms|s)", re.MULTILINE)
    assert durations.sub("N", short) == durations.sub("N", text)
    whole = yaml.safe_load(short)
    if "global" in whole:
        assert whole["global"] == {
            "scrape_interval": "3000ms",
            "scrape_timeout": "1000ms",
            "evaluation_interval": "3000ms",
        }
    else:
        alerts = [rule for group in whole["groups"] for rule in group["rules"] if "alert" in rule]
        assert alerts[0]["for"] == "12000ms"


def test_without_the_program_nothing_is_done(monkeypatch):
    prometheus = netlab("peers.prometheus")
    monkeypatch.setattr(prometheus.shutil, "which", lambda _program: None)
    plan = prometheus.Plan(nodes=(12,), repeat=1)
    assert plan.missing() == [f"prometheus is not installed here ({prometheus.INSTALL})."]
    with pytest.raises(netlab("errors").LabError, match="Nothing was done"):
        next(plan.runs())


@pytest.mark.parametrize(
    ("words", "said"), [(("--nodes", 7), "It takes 8 nodes"), (("--shorten", 0), "from 1 to 100")]
)
def test_what_cannot_work_is_refused(words, said):
    if shutil.which("prometheus") is None:
        pytest.skip(netlab("peers.prometheus").INSTALL)
    result = run_lab("evaluate", "prometheus", "--repeat", 1, *words)
    assert result.returncode in (1, 2)
    assert said in result.stderr


def test_the_alarm_rings_and_stops():
    """Twelve targets are scraped; an interior node is killed, the alarm rings, and stops when the node is back."""
    prometheus = netlab("peers.prometheus")
    if shutil.which("prometheus") is None:
        pytest.skip(prometheus.INSTALL)
    plan = prometheus.Plan(nodes=(12,), fanout=2, repeat=1, shorten=8, rest_s=1.0, scrapes=20)
    (run,) = plan.runs()
    found = {**run.about, "fault": None, **run.measure()}
    assert prometheus.is_whole(found), found
    assert found["alert_s"] >= 60 / plan.shorten
    assert found["root_sd_bytes"] == found["leaf_sd_bytes"] > 100 * 12
    assert found["samples_per_scrape"] > 50
    assert "1 of 1" in prometheus.table([found])


def test_a_dead_list_does_not_ring_for_nodes_that_leave(tmp_path):
    """The root dies, whose list Prometheus keeps; then an interior node and a leaf say goodbye."""
    prometheus = netlab("peers.prometheus")
    if shutil.which("prometheus") is None:
        pytest.skip(prometheus.INSTALL)
    shorten, dead, left = 6, 1, (5, 9)
    with (
        netlab("lab").Lab(12, 2) as lab,
        netlab("peers.programs").NodePrograms(lab, tmp_path) as programs,
        netlab("peers.page_reader").PageReader(lab, 12) as reader,
    ):
        lab.start_all()
        lab.wait_stable(60)
        server = prometheus.Prometheus(programs, reader, 12)
        server.start(shorten)
        server.wait(lambda: server.value("job:subord_members_down:sum == bool 0") == 1, 60, "to know all members")
        server.wait(lambda: server.value("job:subord_members:count") == 12, 60, "to know all members")

        def ringing(*names):
            return {each.get("instance") for each in server.firing() if each["alertname"] in names}

        def down():
            return {
                each["metric"]["instance"] for each in server.ask("query", query='up{job="subord"} == 0')["result"]
            }

        lab.kill(dead)
        server.wait(lambda: ringing("SubordNodeDown") == {lab.address(dead)}, 90, "to raise the alert of the root")
        for position in left:
            lab.kill(position, signal.SIGTERM)
        all_down = {lab.address(position) for position in (dead, *left)}
        server.wait(lambda: down() == all_down, 30, "to see the goodbyes")
        until = time.monotonic() + 1.5 * 300 / shorten  # longer than the slower of the two rules waits
        while time.monotonic() < until:
            assert ringing("SubordNodeDown", "SubordManyNodesDown", "SubordNoMembers") == {lab.address(dead)}
            time.sleep(1)
        server.wait(lambda: down() == all_down, 30, "to keep the dead list; without it nothing was tried")


def test_no_node_ever_gives_half_a_list():
    """While the root dies, and is started again, every list is whole, or none is given."""
    with netlab("lab").Lab(7, 2) as lab, netlab("peers.page_reader").PageReader(lab, 7) as reader:
        lab.start_all()
        lab.wait_stable(60)
        lists = {position: f"http://{lab.address(position)}:9717/sd?of=cluster" for position in (1, 2, 7)}

        def lengths():
            pages = {position: reader.get(url) for position, url in lists.items()}
            return {p: len(json.loads(page.text)) if page.status == 200 else page.status for p, page in pages.items()}

        wait_until(lambda: lengths() == {1: 7, 2: 7, 7: 7}, "all three have the list")
        lab.kill(1)
        seen = [lengths()]
        lab.wait(lambda cluster: [root.address for root in cluster.roots()] == [lab.address(2)], 30)
        seen += [lengths() for _ in range(20)]
        assert all(each == {1: 0, 2: 7, 7: 7} for each in seen), seen
        lab.start(1)
        seen.clear()
        wait_until(lambda: seen.append(lengths()) or seen[-1][1] == 7, "the root gives the list again")
        assert all((each[1] in {0, 503, 7}, each[2], each[7]) == (True, 7, 7) for each in seen), seen


def test_a_rack_that_dies_with_the_root_in_it_stays_on_the_list():
    """The new root has seen none of them die but one; the asked node remembers the list before."""
    with netlab("lab").Lab(15, 2) as lab, netlab("peers.page_reader").PageReader(lab, 15) as reader:
        lab.start_all()
        lab.wait_stable(60)
        url = f"http://{lab.address(15)}:9717/sd?of=cluster"

        def length():
            page = reader.get(url)
            return len(json.loads(page.text)) if page.status == 200 else page.status

        wait_until(lambda: length() == 15, "the list is whole")
        for position in range(1, 7):
            lab.kill(position)
        seen = []
        lab.wait(lambda cluster: len(cluster.roots()) == 1 and not cluster.roots()[0].address.endswith(".1"), 60)
        lab.wait_stable(60)
        wait_until(lambda: seen.append(length()) or len(seen) > 20, "it was asked often")
        assert set(seen) == {15}, seen
