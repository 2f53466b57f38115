"""Sets the project's version wherever it is written, and exports the source tree of a release.

    python contrib/version.py set VERSION         # in this tree; then `nox -s generate`
    python contrib/version.py export DIRECTORY    # the last commit; a development version has its number of commits

Between releases the sources say `.dev0`. An export says `.devN`, N being the commits since the last tag `v*`, as `git
describe` counts them: packages of different commits have different versions. A source distribution needs no Git.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SOURCE = "resctrl_hooks/__init__.py"
PLACES = (SOURCE, "contrib/daemonset/*.yaml", "contrib/events/*.yaml", "contrib/daemonset/README.md")
"""Files that contain the version; all others are generated."""
DEVELOPMENT = ".dev0"


def version_of(tree: Path) -> str:
    """Return the version of a source tree."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (tree / SOURCE).read_text(), re.MULTILINE)
    return str(found)


def set_version(tree: Path, version: str) -> None:
    """Replace the version in each file that contains it."""
    before = version_of(tree)
    for place in PLACES:
        for path in tree.glob(place):
            path.write_text(path.read_text().replace(before, version))


def numbered(version: str, commits: int) -> str:
    """Return a development version with its number of commits; a release's version unchanged."""
    base = version.removesuffix(DEVELOPMENT)
    return version if base == version else f"{base}.dev{commits}"


def commits_since_tag(tree: Path) -> int:
    """Return the number of commits since the last tag of a release; of all commits if no tag exists."""
    described = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match=v*"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    commits = f"{described.stdout.strip()}..HEAD" if described.returncode == 0 else "HEAD"
    counted = subprocess.run(
        ["git", "rev-list", "--count", commits], cwd=tree, capture_output=True, text=True, check=True
    )
    return int(counted.stdout)


def has_changes(tree: Path) -> bool:
    """Return whether files of a tree differ from its last commit."""
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    return bool(subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout)


def export(source: Path, target: Path) -> str:
    """Clone the last commit into a directory, set its version, and regenerate its files; return the version.

    Raises:
        subprocess.CalledProcessError: The source is not a Git repository, or a program failed.
    """
    if has_changes(source):
        sys.stderr.write("version: warning: uncommitted changes are not in the release\n")
    subprocess.run(["git", "clone", "--quiet", str(source), str(target)], check=True)
    version = numbered(version_of(target), commits_since_tag(target))
    if version != version_of(target):
        set_version(target, version)
        environment = {**os.environ, "PYTHONPATH": str(target)}
        subprocess.run([sys.executable, "contrib/generate.py"], cwd=target, env=environment, check=True)
    return version


def main(command: str, argument: str) -> None:
    """Run a command."""
    if command == "set":
        set_version(REPOSITORY, argument)
    elif command == "export":
        sys.stdout.write(f"{export(REPOSITORY, Path(argument))}\n")
    else:
        sys.exit(f"unknown command {command!r}: set or export")


if __name__ == "__main__":
    main(*sys.argv[1:])
