"""The epilogs of deploy/epilog: what they write of a job, and that they never fail and never wait for long."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subord.services.account.record import Job
from tests.api.served_ledger import FakeLedger, served

FOLDER = Path(__file__).parents[2] / "deploy" / "epilog"
NAMES = ("gridengine", "slurm")
SLURM = {
    "SLURM_JOB_ID": "17",
    "SLURM_CLUSTER_NAME": "one",
    "SLURM_JOB_PARTITION": "batch",
    "SLURMD_NODENAME": "n4",
    "SLURM_JOB_USER": "ann",
    "SLURM_JOB_GID": "0",
    "SLURM_JOB_ACCOUNT": "physics",
    "SLURM_JOB_START_TIME": "1000",
    "SLURM_JOB_END_TIME": "99999999999",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_JOB_CPUS_PER_NODE": "8(x2),2,4",
    "SLURM_JOB_EXIT_CODE2": "0:9",
}
SCONTROL = "#!/bin/sh\n[ \"$*\" = 'show hostnames n[1-4]' ] && printf 'n%d\\n' 1 2 3 4\n"
SQUEUE = """\
#!/bin/sh
[ "$SLURM_TIME_FORMAT $*" = "%s --noheader --states=all --format=%A %S --jobs=17" ] && printf '18 900\\n17 1000\\n'
"""
USAGE = """\
start_time=1000
end_time=2000
exit_status=137
signal=9
ru_wallclock=1000
ru_utime=12.5
ru_stime=1
ru_maxrss=2048
cpu=13.5
maxvmem=1e9
"""


LIMITS = (
    ("--timeout=2", "--timeout=30"),
    ("--kill-after=1 10", "--kill-after=1 60"),
    ('--kill-after=1 2 "$@"', '--kill-after=1 30 "$@"'),  # squeue and scontrol
)
"""On a busy machine a program that does not hang takes some seconds, too."""


def script(folder: Path, name: str, socket: str) -> Path:
    """The epilog, with the program of this Python, and a log in the folder."""
    subord = folder / "subord"
    path = shlex.quote(str(FOLDER.parents[1]))  # a checkout may be anywhere
    python = f"SUBORD_SOCKET={shlex.quote(socket)} PYTHONPATH={path} {shlex.quote(sys.executable)}"
    subord.write_text(f'#!/bin/sh\n/usr/bin/env >"{folder}/environment"\n{python} -m subord "$@"\n')
    logger = folder / "logger"
    logger.write_text(f'#!/bin/sh\n/bin/cat >"{folder}/logged"\n')
    programs = {folder / "bin" / "scontrol": SCONTROL, folder / "bin" / "squeue": SQUEUE}
    (folder / "bin").mkdir(exist_ok=True)
    for program, content in programs.items():
        program.write_text(content)
    text = (FOLDER / name).read_text()
    for full, other in (("/usr/local/bin/subord", subord), ("/usr/bin/logger", logger)):
        assert full in text
        text = text.replace(full, str(other))
    for limit, longer in LIMITS:
        text = text.replace(limit, longer)
    text = text.replace("PATH=/usr/bin:/usr/local/bin:/opt/slurm/bin", f"PATH='{folder}/bin'")
    for each in (subord, logger, *programs):
        each.chmod(0o755)
    (folder / "logged").write_text("")
    found = folder / name
    found.write_text(text)
    found.chmod(0o755)
    return found


def run(folder: Path, name: str, socket: str, environment: dict[str, str], *words: str) -> str:
    """What it has logged."""
    command = [script(folder, name, socket), *words]
    environment = {"PATH": "/nowhere", **environment}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return (folder / "logged").read_text()


def logged_and_written(
    folder: Path, name: str, environment: dict[str, str], *words: str, ledger: FakeLedger | None = None
) -> tuple[str, list[Job | None]]:
    ledger = ledger or FakeLedger()
    with served(ledger) as socket:
        return run(folder, name, socket, environment, *words), ledger.jobs


def written(folder: Path, name: str, environment: dict[str, str], *words: str) -> Job:
    logged, (job,) = logged_and_written(folder, name, environment, *words)
    assert logged == ""
    assert job is not None
    return job


def test_slurm(tmp_path: Path) -> None:
    job = written(tmp_path, "slurm", SLURM)
    assert time.time() - 60 < job.ended <= time.time()
    assert (job.id, job.cluster, job.queue, job.host) == ("17", "one", "batch", "n4")
    assert (job.user, job.group, job.account, job.started) == ("ann", "root", "physics", 1000)
    assert (job.slots, job.status, job.signal) == (4, 0, 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"SLURM_JOB_CPUS_PER_NODE": "8"}, (8, 0, 9, 1000)),
        ({"SLURM_JOB_CPUS_PER_NODE": "8(x4)"}, (8, 0, 9, 1000)),
        ({"SLURM_JOB_CPUS_PER_NODE": "2,8(x3)"}, (8, 0, 9, 1000)),
        ({"SLURM_JOB_NODELIST": "", "SLURM_NODELIST": "n[1-4]"}, (4, 0, 9, 1000)),
        ({"SLURM_JOB_NODELIST": "n[1-9]"}, (8, 0, 9, 1000)),  # which scontrol does not know here
        ({"SLURM_JOB_EXIT_CODE2": "3:0"}, (4, 3, 0, 1000)),
        ({"SLURM_JOB_EXIT_CODE2": "0:125"}, (4, 125, None, 1000)),  # out of memory
        ({"SLURM_JOB_EXIT_CODE2": "0:64"}, (4, 0, 64, 1000)),
        ({"SLURM_JOB_START_TIME": ""}, (4, 0, 9, 1000)),  # slurmctld knows it
        ({"SLURM_JOB_START_TIME": "", "SLURM_JOB_ID": "18"}, (4, 0, 9, None)),
        ({"SLURM_JOB_START_TIME": "0"}, (4, 0, 9, None)),  # it was not started
        (dict.fromkeys(set(SLURM) - {"SLURM_JOB_ID"}, "") | {"SLURM_JOB_ID": "18"}, (1, None, None, None)),
    ],
)
def test_slurm_of_other_releases(
    tmp_path: Path, variables: dict[str, str], found: tuple[int, int | None, int | None, int | None]
) -> None:
    environment = {name: value for name, value in {**SLURM, **variables}.items() if value}
    job = written(tmp_path, "slurm", environment)
    assert (job.slots, job.status, job.signal, job.started) == found


def test_slurm_of_a_short_job_that_a_host_with_a_fast_clock_has_started(tmp_path: Path) -> None:
    started = int(time.time()) + 100
    job = written(tmp_path, "slurm", {**SLURM, "SLURM_JOB_START_TIME": str(started)})
    assert (job.started, job.ended) == (started, started)


def test_names_are_utf_8_in_every_locale(tmp_path: Path) -> None:
    name = "b\u00fcb \u2603"
    variables = {**SLURM, "SLURM_JOB_USER": name, "SLURM_JOB_ACCOUNT": name, "LC_ALL": "de_DE.ISO-8859-1"}
    job = written(tmp_path, "slurm", variables)
    assert (job.user, job.account) == (name, name)
    assert "LC_ALL=C.UTF-8\n" in (tmp_path / "environment").read_text()
    assert written(tmp_path, "gridengine", variables, "17", "0", name, "all.q", "n4").user == name
    assert "LC_ALL" not in (tmp_path / "environment").read_text()


@pytest.mark.parametrize("variable", ["SLURM_JOB_START_TIME", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_EXIT_CODE2"])
def test_slurm_with_a_value_that_is_wrong_has_a_record_without_it(tmp_path: Path, variable: str) -> None:
    logged, (job,) = logged_and_written(tmp_path, "slurm", {**SLURM, variable: "x:y"})
    assert job is not None
    assert (job.id, job.account, job.started, job.slots, job.status) == ("17", "physics", None, 1, None)
    assert logged.startswith("the record of job 17: subord: ")
    assert logged.endswith("; no record is kept; without start, slots and exit status it is kept\n")


@pytest.mark.parametrize("usage", ["exit_status=-1", "start_time=x", "ru_maxrss=1e9", "end_time=99999999999"])
def test_the_owner_of_a_job_cannot_keep_it_out_of_the_records(tmp_path: Path, usage: str) -> None:
    (tmp_path / "usage").write_text(f"{usage}\n")
    environment = {"SGE_JOB_SPOOL_DIR": str(tmp_path), "NSLOTS": "4"}
    words = ("17", "0", "ann", "all.q", "n4")
    logged, (job,) = logged_and_written(tmp_path, "gridengine", environment, *words)
    assert job is not None
    assert (job.id, job.user, job.slots, job.status) == ("17", "ann", 1, None)
    assert logged.endswith("; no record is kept; without the environment of the job it is kept\n")


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_too_long_are_logged_with_the_job(tmp_path: Path, name: str) -> None:
    variables = {**SLURM, "SLURM_JOB_ACCOUNT": "x" * 100_000}
    logged, jobs = logged_and_written(tmp_path, name, variables, "17", "0", "ann", "x" * 100_000, "n4")
    assert jobs == []
    assert logged.startswith("the record of job 17: subord: ")
    assert logged.count("no record is kept") == 2
    assert len(logged) < 1000


@pytest.mark.parametrize("name", NAMES)
def test_a_full_spool_is_logged_and_nothing_is_tried_again(tmp_path: Path, name: str) -> None:
    logged, jobs = logged_and_written(tmp_path, name, SLURM, "17", "0", "ann", "all.q", "n4", ledger=FakeLedger(0))
    assert jobs == []
    assert logged.count("the spool of this node is full") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_program_or_a_log_that_hangs_is_ended(tmp_path: Path, name: str) -> None:
    found = script(tmp_path, name, "")
    found.write_text(found.read_text().replace("--kill-after=1 60", "--kill-after=1 1").replace("=1 5", "=1 1"))
    for program in ("subord", "logger"):
        (tmp_path / program).write_text("#!/bin/sh\ntrap '' TERM\necho slow\nexec /bin/sleep 60\n")
    began = time.monotonic()
    subprocess.run([found, "17"], env={}, capture_output=True, timeout=50, check=True)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("name", NAMES)
def test_without_any_variable_or_word_nothing_is_written(tmp_path: Path, name: str) -> None:
    logged, jobs = logged_and_written(tmp_path, name, {})
    assert jobs == []
    assert "there is no field `id`" in logged


def test_gridengine(tmp_path: Path) -> None:
    (tmp_path / "usage").write_text(USAGE)
    environment = {"SGE_JOB_SPOOL_DIR": str(tmp_path), "NSLOTS": "4", "SGE_ACCOUNT": "sge", "PYTHONPATH": "/job"}
    job = written(tmp_path, "gridengine", environment, "17", "0", "root", "all.q", "n4")
    assert job == Job(
        id="17",
        user="root",
        group="root",
        account="sge",
        queue="all.q",
        slots=4,
        host="n4",
        started=1000,
        ended=2000,
        status=137,
        signal=9,
        cpu_user_s=12.5,
        cpu_system_s=1,
        rss_bytes=2 << 20,
    )
    assert "/job" not in (tmp_path / "environment").read_text()


def test_gridengine_without_the_file_of_usage(tmp_path: Path) -> None:
    environment = {"SGE_JOB_SPOOL_DIR": "/nowhere", "NSLOTS": "2"}
    job = written(tmp_path, "gridengine", environment, "17", "3", "ann", "all.q", "n4")
    assert (job.id, job.user, job.slots, job.started, job.status) == ("17.3", "ann", 2, None, None)


def test_gridengine_of_a_job_that_could_not_be_started(tmp_path: Path) -> None:
    (tmp_path / "usage").write_text("start_time=0\nend_time=0\nexit_status=1\n")
    job = written(tmp_path, "gridengine", {"SGE_JOB_SPOOL_DIR": str(tmp_path)}, "17", "0", "ann", "all.q", "n4")
    assert (job.started, job.status) == (None, 1)
    assert job.ended > 2000


def test_gridengine_with_a_pipe_in_place_of_the_file(tmp_path: Path) -> None:
    """The place of the file is in the environment of the job; an epilog that waits would hold up the queue."""
    os.mkfifo(tmp_path / "usage")
    job = written(tmp_path, "gridengine", {"SGE_JOB_SPOOL_DIR": str(tmp_path)}, "17", "0", "ann", "all.q", "n4")
    assert (job.id, job.started) == ("17", None)


def test_gridengine_with_a_file_without_end(tmp_path: Path) -> None:
    with (tmp_path / "usage").open("wb") as file:
        file.write(USAGE.encode())
        file.truncate(1 << 40)
    job = written(tmp_path, "gridengine", {"SGE_JOB_SPOOL_DIR": str(tmp_path)}, "17", "0", "ann", "all.q", "n4")
    assert (job.id, job.started, job.status) == ("17", 1000, 137)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_job_calls_itself_is_no_command(tmp_path: Path, name: str) -> None:
    """Words of a job reach the command as they are, or not at all."""
    evil = f"$(touch {tmp_path}/made) --socket=/x `touch {tmp_path}/made`"
    (tmp_path / "usage").write_text(f"start_time={evil}\nru_maxrss=a[$(touch {tmp_path}/made)]\nexit_status=--help\n")
    environment = {
        **dict.fromkeys(SLURM, evil),
        "SGE_JOB_SPOOL_DIR": str(tmp_path),
        "NSLOTS": evil,
        "SGE_ACCOUNT": evil,
    }
    logged = run(tmp_path, name, str(tmp_path / "absent"), environment, evil, "-x", evil, "--", evil)
    assert "no record is kept" in logged
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", NAMES)
def test_without_a_daemon_it_is_logged_and_the_epilog_succeeds(tmp_path: Path, name: str) -> None:
    words = ("17", "0", "ann", "all.q", "n4")
    assert "absent" in run(tmp_path, name, str(tmp_path / "absent"), {"SLURM_JOB_ID": "17"}, *words)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_programs_without_known_mistakes(name: str) -> None:
    assert sorted(each.name for each in FOLDER.iterdir()) == list(NAMES)
    assert (FOLDER / name).stat().st_mode & stat.S_IXUSR
    assert "--timeout=2" in (FOLDER / name).read_text()
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("no shellcheck here: apt-get install shellcheck")
    subprocess.run([checker, FOLDER / name], check=True, timeout=30)
