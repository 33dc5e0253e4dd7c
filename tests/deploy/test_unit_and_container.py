"""Static checks of the unit and the container file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from subord import cli
from subord.agent.main import parser as agent_parser
from subord.config.schema import AgentConfig, TransferConfig
from subord.services.elastic.preparing.faults import DROP_IN
from subord.services.elastic.preparing.rights import CAPABILITIES
from subord.services.transfer import answering

REPOSITORY = Path(__file__).parents[2]
UNIT = REPOSITORY / "deploy" / "subord.service"
AGENT = REPOSITORY / "deploy" / "subord-agent.service"
CONTAINER = (REPOSITORY / "deploy" / "Containerfile").read_text()


def exposure(unit: Path) -> float:
    """The exposure of a unit by `systemd-analyze security`: 0 (best) to 10."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no `systemd-analyze` here: apt-get install systemd")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "unrecognized option" in ran.stderr:
        pytest.skip("systemd-analyze is older than 250")
    (number,) = re.findall(r"exposure level for \S+: ([0-9.]+)", ran.stdout)
    return float(number)


def documented_exposure(page: str) -> float:
    (number,) = re.findall(r"exposure of ([0-9.]+) ", (REPOSITORY / page).read_text())
    return float(number)


def test_the_exposure_of_the_unit_is_documented() -> None:
    assert exposure(UNIT) <= documented_exposure("docs/install.md")


def test_the_exposure_of_the_agent_is_documented() -> None:
    (number,) = re.findall(r"Its exposure is ([0-9.]+)\.\n", (REPOSITORY / "docs/install.md").read_text())
    assert exposure(AGENT) <= float(number)


def test_the_units_of_the_agent_fit_the_configuration() -> None:
    """The socket is where the daemon looks for it, the journal where the agent keeps it, and the command exists."""
    (line,) = re.findall(r"^ExecStart=\S+/subord-agent (.*)$", AGENT.read_text(), re.MULTILINE)
    arguments = agent_parser().parse_args(line.split())
    assert (arguments.config, arguments.socket) == ("/etc/subord/subord.toml", False)
    defaults = AgentConfig()
    assert f"\nListenStream={defaults.socket}\n" in AGENT.with_suffix(".socket").read_text()
    assert f"/var/lib/{re.findall('^StateDirectory=(.*)$', AGENT.read_text(), re.MULTILINE)[0]}" == (
        defaults.state_directory
    )


def test_an_address_list_lowers_the_exposure(tmp_path: Path) -> None:
    stricter = tmp_path / UNIT.name
    text = UNIT.read_text().replace("[Install]", "IPAddressDeny=any\nIPAddressAllow=10.0.0.0/24\n\n[Install]")
    stricter.write_text(text)
    assert exposure(stricter) < documented_exposure("docs/install.md")


@pytest.mark.parametrize("line", ["PrivateUsers=yes", "CapabilityBoundingSet=", "SystemCallFilter=@system-service"])
def test_a_removed_protection_is_noticed(line: str, tmp_path: Path) -> None:
    weaker = tmp_path / UNIT.name
    assert f"\n{line}\n" in UNIT.read_text()
    weaker.write_text(UNIT.read_text().replace(f"\n{line}\n", "\n"))
    assert exposure(weaker) > documented_exposure("docs/install.md")


def test_the_container_takes_the_package_that_is_built(package: Path) -> None:
    (pattern,) = re.findall(r"^COPY dist/(\S+) /tmp/$", CONTAINER, re.MULTILINE)
    (release,) = re.findall(r"^FROM debian:(\d+)-slim$", CONTAINER, re.MULTILINE)
    assert f"~debian{release}_" in pattern
    if f'VERSION_ID="{release}"' not in Path("/etc/os-release").read_text():
        pytest.skip(f"the package of this machine is for another system than Debian {release}")
    assert fnmatch(package.name, pattern)


def test_the_container_runs_a_command_that_exists() -> None:
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", CONTAINER, re.MULTILINE)
    name, *words = json.loads(line)
    assert name == "subord"
    arguments = cli.parser("run").parse_args(words)
    assert arguments.config == "/etc/subord/subord.toml"
    (start,) = re.findall(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.MULTILINE)
    assert words == start.split()


def test_the_container_gives_the_daemon_no_more_than_it_needs() -> None:
    lines = CONTAINER.splitlines()
    assert lines.index("USER subord") < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    number = re.findall(r"--uid (\d+) --gid \1 ", CONTAINER)
    assert number == re.findall(r"runs as user (\d+), which must own", (REPOSITORY / "docs/install.md").read_text())


def test_the_lines_for_exec_undo_what_the_unit_of_the_agent_forbids() -> None:
    """But for the mask of files and the key ring, which commands do not have from the unit."""

    def names(path: Path) -> set[str]:
        return set(re.findall(r"^(\w+)=", path.read_text().partition("[Service]")[2], re.MULTILINE))

    first = AGENT.read_text().partition("NoNewPrivileges=")
    forbidding = set(re.findall(r"^(\w+)=", "NoNewPrivileges=" + first[2], re.MULTILINE)) | {"LimitNOFILE"}
    assert names(AGENT.with_name("subord-agent-exec.conf")) == forbidding - {
        "UMask",
        "KeyringMode",
        "AmbientCapabilities",
    }


def test_the_lines_for_shares_undo_only_what_hides_groups_and_tasks() -> None:
    lines = AGENT.with_name("subord-agent-shares.conf").read_text().partition("[Service]\n")[2].splitlines()
    assert lines == ["ProtectControlGroups=no", "ProtectProc=default", "ProcSubset=all"]
    before = AGENT.read_text().splitlines()
    assert {line.partition("=")[0] for line in lines} <= {line.partition("=")[0] for line in before}


def test_the_lines_for_elastic_growth_leave_no_name_space_that_would_hide_mounts() -> None:
    """Each of them gives a unit mounts of its own, so what the agent mounts would be seen by the agent alone."""
    apart = {
        *("PrivateDevices", "PrivateMounts", "PrivateTmp", "ProcSubset", "ProtectControlGroups", "ProtectHome"),
        *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProtectSystem"),
    }
    off = {"no", "default", "all"}
    settings = settings_of(AGENT.with_name("subord-agent-elastic.conf"))
    before = settings_of(AGENT)
    assert {name for name in apart if settings.get(name, before[name]) not in off} == set()
    assert settings.keys() - apart == {
        *("NoNewPrivileges", "CapabilityBoundingSet", "IPAddressDeny", "MemoryDenyWriteExecute"),
        "SystemCallFilter",
    }
    assert settings.keys() <= before.keys()
    assert {name for need in CAPABILITIES.values() for name in need} <= set(settings["CapabilityBoundingSet"].split())


def test_the_lines_for_machines_undo_only_what_commands_of_batch_systems_need() -> None:
    """The agent starts no machine itself, so it still writes nothing but its own directory."""
    settings, before = settings_of(AGENT.with_name("subord-agent-machines.conf")), settings_of(AGENT)
    assert settings.keys() == {
        *("NoNewPrivileges", "CapabilityBoundingSet", "IPAddressDeny", "MemoryDenyWriteExecute"),
        *("SystemCallFilter", "PrivateTmp", "ProtectProc", "ProcSubset"),
    }
    assert settings.keys() <= before.keys()
    assert "CAP_SYS_ADMIN" not in settings["CapabilityBoundingSet"]


def test_the_lines_for_transfer_undo_only_what_commands_of_batch_systems_need() -> None:
    """Beside that it has a directory for its socket, and nothing else to write to."""
    settings, before = settings_of(AGENT.with_name("subord-agent-transfer.conf")), settings_of(AGENT)
    own = {"RuntimeDirectory", "RuntimeDirectoryMode"}
    assert settings.keys() - own == {
        *("NoNewPrivileges", "CapabilityBoundingSet", "IPAddressDeny", "MemoryDenyWriteExecute"),
        *("SystemCallFilter", "PrivateTmp", "ProtectHome", "ProtectProc", "ProcSubset", "LimitNOFILE"),
    }
    assert settings.keys() - {*own, "LimitNOFILE"} <= before.keys()
    assert int(settings["LimitNOFILE"]) >= answering.CONNECTIONS_MAX + answering.OTHER_FILES
    assert TransferConfig().socket.startswith(f"/run/{settings['RuntimeDirectory']}/")
    assert "CAP_SYS_ADMIN" not in settings["CapabilityBoundingSet"]


def settings_of(path: Path) -> dict[str, str]:
    """What follows the restrictions; values of several lines are joined."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", path.read_text().partition("[Service]")[2], re.MULTILINE):
        found[name] = f"{found.get(name, '')} {value}".strip()
    return found


def test_the_words_of_the_agent_name_the_lines_for_elastic_growth() -> None:
    files = (REPOSITORY / "deploy" / "debian" / "build.py").read_text()
    assert f'"{Path(DROP_IN).name}": "{DROP_IN.removeprefix("/")}",' in files
    assert DROP_IN in AGENT.with_name(Path(DROP_IN).name).read_text()
