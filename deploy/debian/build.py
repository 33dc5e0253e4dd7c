#!/usr/bin/python3
"""`./dev deb`: a wheel and a Debian package of subord in dist/, whose installation needs no package index.

    ./dev deb [DIRECTORY]     into DIRECTORY instead of dist/

The files are arranged in a scratch directory as on the node, with the control files, and packed by dpkg-deb. The same
commit, Python and versions of packages give the same package, bit for bit (SOURCE_DATE_EPOCH is the time of the
commit).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory

sys.dont_write_bytecode = True
import environment  # noqa: E402
from environment import PLACE, BuildError  # noqa: E402

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
DEPLOY = REPOSITORY / "deploy"
UNITS_PLACE = "lib/systemd/system"
BY_HAND = ("/opt/subord/bin/subord", "/usr/local/bin/subord")
"""The beginnings of the paths of manually installed programs; in the package they begin with /usr/bin/subord."""
FILES = {
    **{name: f"{UNITS_PLACE}/{name}" for name in ("subord.service", "subord-agent.service", "subord-agent.socket")},
    "sysusers.d/subord.conf": "usr/lib/sysusers.d/subord.conf",
    "tmpfiles.d/subord.conf": "usr/lib/tmpfiles.d/subord.conf",
    "debian/subord.toml": f"{PLACE}/subord.toml",
    "debian/logrotate": "etc/logrotate.d/subord",
    "subord.toml": "usr/share/doc/subord/examples/subord.toml",
    "subord-agent-exec.conf": "usr/share/doc/subord/examples/subord-agent-exec.conf",
    "subord-agent-elastic.conf": "usr/share/doc/subord/examples/subord-agent-elastic.conf",
    "subord-agent-machines.conf": "usr/share/doc/subord/examples/subord-agent-machines.conf",
    "subord-agent-transfer.conf": "usr/share/doc/subord/examples/subord-agent-transfer.conf",
    "subord-agent-shares.conf": "usr/share/doc/subord/examples/subord-agent-shares.conf",
    "slurm-epilog.sh": "usr/share/doc/subord/examples/slurm-epilog.sh",
    "gridengine-epilog.sh": "usr/share/doc/subord/examples/gridengine-epilog.sh",
    "epilog/slurm": "usr/share/doc/subord/examples/epilog/slurm",
    "epilog/gridengine": "usr/share/doc/subord/examples/epilog/gridengine",
    "prometheus/prometheus.yml": "usr/share/doc/subord/examples/prometheus/prometheus.yml",
    "prometheus/subord.rules.yml": "usr/share/doc/subord/examples/prometheus/subord.rules.yml",
    "prometheus/subord.rules.test.yml": "usr/share/doc/subord/examples/prometheus/subord.rules.test.yml",
    "prometheus/subord.rules.days.test.yml": "usr/share/doc/subord/examples/prometheus/subord.rules.days.test.yml",
    "grafana/subord.json": "usr/share/doc/subord/examples/grafana/subord.json",
}
"""The files of deploy/ and their places in the package, besides the environment."""
DOCUMENTS = (
    *("README.md", "CHANGELOG.md", "LICENSE", "netns-lab/README.md"),
    *("docs/*.md", "docs/*/*.md", "docs/schemas/*.json", "docs/*.svg", "docs/*.webp"),
)
"""Packed at their paths in the repository, unchanged, so that the links among them work."""
MAKE_PAGES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import build_man
build_man.main(Path(sys.argv[2]))
"""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions",
    "zsh": "usr/share/zsh/vendor-completions",
    "fish": "usr/share/fish/vendor_completions.d",
}
SCRIPTS = ("postinst", "prerm", "postrm")


def main(words: list[str]) -> int:
    """Build; returns the exit code."""
    if len(words) > 1 or any(word.startswith("-") for word in words):
        print("dev deb: takes one directory at most, where the package goes; default: dist", file=sys.stderr)
        return 2
    wanted = Path(words[0] if words else REPOSITORY / "dist").resolve()
    try:
        environment.check()
        for path in build(wanted):
            print(path)
    except BuildError as error:
        print(f"dev deb: {error}\nNothing was built.", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"dev deb: {error.filename or wanted}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def build(wanted: Path) -> list[Path]:
    """The wheel and the package, in the directory `wanted`. Raises BuildError."""
    os.environ["SOURCE_DATE_EPOCH"] = str(time_of_sources())
    os.umask(0o022)
    wanted.mkdir(parents=True, exist_ok=True)
    refuse_others(wanted)
    with TemporaryDirectory(prefix="subord-deb-") as folder:
        scratch, tree = Path(folder), Path(folder) / "tree"
        wheel = environment.wheel(REPOSITORY, scratch)
        version = debian_version(wheel.name.split("-")[1])
        environment.fill(tree, REPOSITORY, scratch, wheel)
        lay_out(tree)
        add_documents(tree, version)
        generated(tree, scratch)
        settle_times(tree)
        environment.compile_all(tree)
        settle_times(tree)
        refuse_traces(tree, folder)
        add_control(tree, version)
        package = scratch / f"subord_{version}_{architecture()}.deb"
        # Level 2 of xz: a quarter of the time, a seventh more bytes.
        environment.run("dpkg-deb", "--root-owner-group", "-z2", "--build", str(tree), str(package))
        return [Path(shutil.copy(path, wanted)) for path in (wheel, package)]


def refuse_others(wanted: Path) -> None:
    """Raises BuildError if another version is in `wanted`, because `subord_*.deb` would match both."""
    text = (REPOSITORY / "subord" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    ours = (f"subord_{debian_version(version)}_{architecture()}.deb", f"subord-{version}-")
    found = [*wanted.glob("subord_*.deb"), *wanted.glob("subord-*.whl")]
    others = sorted(path.name for path in found if not path.name.startswith(ours))
    if others:
        raise BuildError(f"{wanted} holds another version, remove it or build elsewhere: {', '.join(others)}")


def time_of_sources() -> int:
    """Seconds since 1970: SOURCE_DATE_EPOCH, or the time of the commit, or of CHANGELOG.md."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given.isdigit():
        return int(given)
    try:
        found = output_of("git", "-C", str(REPOSITORY), "log", "-1", "--format=%ct")
    except (OSError, subprocess.CalledProcessError):
        found = ""  # not a clone
    return int(found) if found.isdigit() else int((REPOSITORY / "CHANGELOG.md").stat().st_mtime)


def debian_version(version: str) -> str:
    """0.2.0rc1 is older than 0.2.0, and a package for Debian 12 older than one for 13: `~` (deb-version(7))."""
    upstream = re.sub(r"\.?(a|b|rc|dev)(\d+)", r"~\1\2", version)
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    system = dict(re.findall(r'^(ID|VERSION_ID)="?([\w.]+)"?$', text, re.MULTILINE))
    return f"{upstream}-1~{system.get('ID', 'linux')}{system.get('VERSION_ID', '')}"


def architecture() -> str:
    """Of this machine, because the package has compiled modules: "amd64"."""
    return output_of("dpkg", "--print-architecture")


def output_of(*words: str) -> str:
    """What a command prints."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def lay_out(tree: Path) -> None:
    """Put the files besides the environment in their places."""
    for name, place in FILES.items():
        text = (DEPLOY / name).read_text(encoding="utf-8")
        for path in BY_HAND:
            text = text.replace(path, "/usr/bin/subord")
        target = tree / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(0o755 if (DEPLOY / name).stat().st_mode & 0o100 else 0o644)
    commands = tree / "usr/bin"
    commands.mkdir(parents=True, exist_ok=True)
    for name in environment.LAUNCHERS:
        (commands / name).symlink_to(f"../lib/subord/bin/{name}")


def add_documents(tree: Path, version: str) -> None:
    """The documents; copyright and changelog, which every package has."""
    folder = tree / "usr/share/doc/subord"
    for source in (path for pattern in DOCUMENTS for path in REPOSITORY.glob(pattern)):
        target = folder / source.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    bundled = "".join(f" {name} {number}: {licence}\n" for name, number, licence in environment.versions(tree))
    text = (HERE / "copyright").read_text(encoding="utf-8").replace("@BUNDLED@\n", bundled)
    (folder / "copyright").write_text(text, encoding="utf-8")
    when = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    entry = f"subord ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {maintainer()}  {when}\n"
    for name, content in (
        ("changelog.Debian.gz", entry.encode()),
        ("changelog.gz", (REPOSITORY / "CHANGELOG.md").read_bytes()),
    ):
        (folder / name).write_bytes(gzip.compress(content, 9, mtime=0))


def generated(tree: Path, scratch: Path) -> None:
    """Manual pages and shell completions, written by the packaged program (docs/build_man.py)."""
    made = scratch / "made"
    environment.run(f"{tree}/{PLACE}/bin/python3", "-IBc", MAKE_PAGES, str(REPOSITORY / "docs"), str(made))
    for page in made.glob("man/*.[1-8]"):
        target = tree / "usr/share/man" / f"man{page.suffix[1:]}" / f"{page.name}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(page.read_bytes(), 9, mtime=0))
    for shell, place in COMPLETIONS.items():
        (found,) = (made / "completions" / shell).iterdir()
        (tree / place).mkdir(parents=True)
        shutil.copy(found, tree / place)


def maintainer() -> str:
    """The maintainer in the control file."""
    (found,) = re.findall(r"^Maintainer: (.*)$", (HERE / "control").read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)


def settle_times(tree: Path) -> None:
    """Set the times of all files to that of the commit, so that each build gives the same package."""
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def refuse_traces(tree: Path, *places: str) -> None:
    """Raises BuildError if a file has a path of this machine, which does not exist on a node."""
    traces = [place.encode() for place in (*places, str(REPOSITORY))]
    for path in tree.rglob("*"):
        if path.is_symlink():
            found = os.readlink(path).encode()
        elif path.is_file():
            found = path.read_bytes()
        else:
            continue
        if any(trace in found for trace in traces):
            raise BuildError(f"{path.relative_to(tree)} names a path of this machine; this is a bug in {HERE}")


def add_control(tree: Path, version: str) -> None:
    """DEBIAN/: the control file, check sums, files to be kept, and the scripts (deb(5))."""
    folder = tree / "DEBIAN"
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    sums = [f"{hashlib.md5(each.read_bytes()).hexdigest()}  {each.relative_to(tree)}\n" for each in files]  # noqa: S324
    size_kib = sum(-(-path.lstat().st_size // 1024) for path in tree.rglob("*"))
    major, minor = sys.version_info[:2]
    values = {
        "VERSION": version,
        "ARCHITECTURE": architecture(),
        "SIZE": str(size_kib),
        "PYTHON": f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1}~)",
        "LIBC": libc(),
    }
    control = (HERE / "control").read_text(encoding="utf-8")
    for name, value in values.items():
        control = control.replace(f"@{name}@", value)
    folder.mkdir()
    (folder / "control").write_text(control, encoding="utf-8")
    (folder / "md5sums").write_text("".join(sums), encoding="utf-8")
    (folder / "conffiles").write_text("/etc/logrotate.d/subord\n", encoding="utf-8")
    for name in SCRIPTS:
        shutil.copy(HERE / name, folder)
        (folder / name).chmod(0o755)
    settle_times(folder)


def libc() -> str:
    """The oldest libc that the package admits: the compiled modules were chosen for that of this machine."""
    return f"libc6 (>= {os.confstr('CS_GNU_LIBC_VERSION').split()[1]})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
