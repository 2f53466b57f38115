"""Proves both halves on their Pythons: the node half on 3.9 and the newest, the people half on 3.11 and later.

What this machine has is used (PATH); 3.9 and the newest come from Debian's older and newer release otherwise, by
debootstrap, as root on Debian. An interpreter out of another release runs with that release's own C library.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

import cache
import debian
import guest

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

OLDEST_NODE, OLDEST_PEOPLE = (3, 9), (3, 11)
RELEASES = {(3, 9): "bullseye", (3, 14): "forky"}  # debian's release with each version that must be tried
NODE_TESTS = ("tests/project/test_node_half.py", "tests/core/node/test_launch.py", "tests/nri/node/test_pythons.py")
PEOPLE_TESTS = (
    "tests/core/config/test_check.py",
    "tests/core/explanation",
    "tests/core/cli/test_all_commands.py",
    "tests/project/test_library.py",
    "tests/core/doctor",
    "tests/observe/doctor",
    "tests/placement/doctor",
    "tests/nri/doctor",
)
SCRIPT = "/usr/share/debootstrap/scripts/sid"


def version_of(command: str) -> tuple[int, int] | None:
    """Return an interpreter's version, or None if it doesn't start."""
    program = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([command, "-I", "-c", program], capture_output=True, text=True, check=False)
    major, minor = done.stdout.split() or (0, 0)
    return (int(major), int(minor)) if not done.returncode else None


def here() -> dict[tuple[int, int], str]:
    paths = {(3, minor): shutil.which(f"python3.{minor}") for minor in range(OLDEST_NODE[1], 30)}
    return {version: path for version, path in paths.items() if path and version_of(path) == version}


def _make(release: str) -> Callable[[str], None]:
    def make(folder: str) -> None:
        log = f"{folder}/log"
        debian.install_tools(log)
        script = [SCRIPT] if not os.path.exists(f"/usr/share/debootstrap/scripts/{release}") else []
        command = [
            "debootstrap",
            "--variant=minbase",
            "--include=python3",
            release,
            f"{folder}/root",
            debian.mirror(log),
        ]
        debian.logged(debian.isolated([*command, *script]), log)

    return make


def start_script(root: str, version: tuple[int, int], folder: str) -> str:
    """Make a command that runs the interpreter of another release's tree with that tree's loader and libraries."""
    name = f"python{version[0]}.{version[1]}"
    prefix = os.path.join(folder, name)
    os.makedirs(f"{prefix}/bin")
    os.symlink(f"{root}/usr/lib", f"{prefix}/lib")
    command = f"{prefix}/bin/{name}"
    loader = f"{root}/usr/lib64/ld-linux-x86-64.so.2"
    if not os.path.exists(loader):
        loader = f"{root}/lib64/ld-linux-x86-64.so.2"
    libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
    words = [os.path.realpath(loader), "--library-path", libraries, "--argv0", command, f"{root}/usr/bin/{name}"]
    with open(command, "w", encoding="ascii") as file:
        # Perl, which every Debian has: a shell would complain of a current folder that is gone.
        file.write("#!/usr/bin/perl\nexec " + ", ".join(f"'{word}'" for word in words) + ", @ARGV;\n")
    os.chmod(command, 0o755)
    return command


def fetched(version: tuple[int, int], release: str, folder: str) -> str:
    """Return an interpreter out of a Debian release, fetched once and kept."""
    debian.need_builder()
    with cache.part(f"python-{release}", cache.stamp_of([os.path.abspath(__file__)]), _make(release)) as tree:
        return start_script(f"{tree}/root", version, folder)


def pytest(arguments: tuple[str, ...], path: list[str]) -> bool:
    environment = {**os.environ, "PATH": os.pathsep.join([*path, os.environ["PATH"]])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "ci or not ci", *arguments]
    return subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode == 0


def people(command: str, version: tuple[int, int], folder: str) -> bool:
    """Run tests of the people half; this interpreter's pip fetches what the other one needs."""
    target = [f"--python-version={version[0]}.{version[1]}", "--implementation=cp"]
    target += [f"--platform={name}" for name in guest.PLATFORMS]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--only-binary=:all:"]
    subprocess.run([*pip, *target, f"--target={folder}", *guest.requirements()], check=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, PROJECT])}
    tests = [command, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "ci or not ci", *PEOPLE_TESTS]
    return subprocess.run(tests, cwd=PROJECT, env=environment, check=False).returncode == 0


def main() -> int:
    """Try all; 1 if a half fails on one of its Pythons, 98 if one that must be tried can't be had."""
    ok = True
    with tempfile.TemporaryDirectory(prefix="pythons") as folder:
        found = here()
        for version, release in RELEASES.items():
            if version not in found:
                try:
                    found[version] = fetched(version, release, folder)
                except cache.VmError as error:
                    cache.say(f"Python {version[0]}.{version[1]} can't be had: {error}")
                    return 98
        for version, command in sorted(found.items()):
            name = f"{version[0]}.{version[1]}"
            if version_of(command) != version:
                cache.say(f"{command} does not start")
                return 98
            link = f"{folder}/only-{name}"
            os.makedirs(link)
            os.symlink(command, f"{link}/python{name}")
            cache.say(f"node half on Python {name} ({command})")
        ok = pytest(NODE_TESTS, [f"{folder}/only-{v[0]}.{v[1]}" for v in found]) and ok
        for version, command in sorted(found.items()):
            if version >= OLDEST_PEOPLE and "--node" not in sys.argv:
                cache.say(f"people half on Python {version[0]}.{version[1]}")
                ok = people(command, version, f"{folder}/packages{version[1]}") and ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
