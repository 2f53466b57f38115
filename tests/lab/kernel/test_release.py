"""A release on a host whose containers run: the Debian package comes and goes; from 0.1 to this version and back.

The package is made by what `nox -s release` calls, of the tree that came into the guest. Its dependencies are here as
pip installed them: a second package says so to dpkg, with their real versions.
"""

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from core.install.staged import FIRST, deliver, led
from project.contributed import release

from kernel.bare import clear_host
from kernel.bundles import FIRST_INSTRUCTION
from kernel.groups import Place, Resctrl, parse_place, place_of
from kernel.installed import Installed, succeeds
from kernel.runtimes import Podman, run, wait_until
from resctrl_hooks import __version__
from resctrl_hooks.core.install.paths import HOOK_NAME, LAUNCH, VENDOR_HOOKS

HOUSES = ("observe", "placement", "nri", "openshift")
pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd"), pytest.mark.nightly]
QUIET = ("--network=none", "--log-driver=k8s-file")
PROJECT = Path(__file__).parents[3]
COMMAND = "/usr/bin/resctrl-hook"
BARE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
"""Without the folder from which the guest has the command otherwise."""
DEPENDENCIES = ("click", "prometheus-client", "psutil", "pydantic", "rich", "pyyaml")
OF_DEBIAN = {"pyyaml": "python3-yaml"}
STAND_IN = """Package: guest-python-libraries
Version: 1
Architecture: all
Maintainer: the tests
Provides: {provides}
Description: the libraries that pip has put into the guest
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the Debian package of this tree."""
    wheel = tmp_path / f"resctrl_hooks-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted((PROJECT / "resctrl_hooks").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(PROJECT))
        archive.writestr(f"resctrl_hooks-{__version__}.dist-info/RECORD", "")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    built: Path = release().debian_package(wheel, tmp_path)
    return built


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """Return a package that provides the guest's libraries to Debian's Python."""
    root = tmp_path / "libraries"
    (root / "DEBIAN").mkdir(parents=True)
    names = [f"{OF_DEBIAN.get(name, f'python3-{name}')} (= {version(name)})" for name in DEPENDENCIES]
    (root / "DEBIAN/control").write_text(STAND_IN.format(provides=", ".join(names)))
    found = root / "usr/lib/python3/dist-packages/guest.pth"
    found.parent.mkdir(parents=True)
    found.write_text(f"{os.path.dirname(os.path.dirname(pytest.__file__))}\n")
    run(["dpkg-deb", "--root-owner-group", "--build", str(root), str(tmp_path / "libraries.deb")])
    return tmp_path / "libraries.deb"


@pytest.fixture
def clean_host() -> Iterator[None]:
    clear_host()
    yield
    run(["dpkg", "--purge", "resctrl-hooks", "guest-python-libraries"], check=False, environment=BARE)
    clear_host()


def there(path: str) -> int:
    """Return a group by its inode number, which another of that name would not have."""
    return os.stat(path).st_ino


@pytest.mark.only(runtime_name="crun")
@pytest.mark.usefixtures("clean_host")
def test_debian_package_works(
    podman: Callable[..., Podman], image: str, resctrl: Resctrl, package: Path, libraries: Path
) -> None:
    def as_root(*words: str) -> str:
        return run(words, environment=BARE)

    as_root("dpkg", "--install", str(libraries), str(package))
    assert as_root(COMMAND, "--version") == f"resctrl-hook, version {__version__}\n"
    hook = Path(VENDOR_HOOKS, HOOK_NAME)
    assert not hook.exists(), "the package alone changes nothing"
    as_root(COMMAND, "install", "--runtime", "podman")

    engine = podman()
    printed = engine.command("run", *QUIET, "--name=short", image, *FIRST_INSTRUCTION)
    assert parse_place(printed) == Place("", engine.inspect("short", "{{.Id}}"))
    engine.command("run", "--detach", *QUIET, "--name=long", image, "sleep", "1000")
    long = engine.inspect("long", "{{.Id}}")
    group = resctrl.path(group=long)
    before = there(group)
    listed = json.loads(as_root(COMMAND, "list", "-o", "json"))
    assert [(pod["name"], pod["state"]) for pod in listed["items"]] == [("long", "assigned")]

    assert f"installed {__version__} for podman" in as_root("dpkg", "--install", str(package))
    assert there(group) == before
    assert place_of(engine.pid("long")).group == long

    as_root("dpkg", "--remove", "resctrl-hooks")
    assert not hook.exists()
    assert not Path(COMMAND).exists()
    engine.command("rm", "--force", "--time=0", "long")  # its poststop has nothing left to call
    printed = engine.command("run", "--rm", *QUIET, image, *FIRST_INSTRUCTION)
    assert parse_place(printed) == Place("", ""), "no hook any more"


class Delivered(Installed):
    """A host that has a version's code from its MachineConfig; settings are this test's."""

    def command(self, *words: str) -> list[str]:
        """Return the command line that is in hooks' JSON and in the bundles of containers."""
        return ["/usr/bin/python3", "-I", "-S", self._folder + LAUNCH, "--config", self.config, *words]

    def bring(self, machineconfig: str) -> None:
        """Deliver another version's code, and compile it as its own unit does at boot and after each change."""
        deliver(Path(self._folder), machineconfig)
        units = yaml.safe_load(machineconfig)["spec"]["config"]["systemd"]["units"]
        (compiles,) = (unit["contents"] for unit in units if "compile" in unit["name"])
        words = compiles.partition("ExecStart=")[2].splitlines()[0].split()
        run([words[0], *(led(Path(self._folder), word) for word in words[1:])], environment=BARE)

    def moved(self, name: str) -> float:
        """Return bytes that a container has moved, as this version's metrics have it."""
        lines = self.prints("metrics", "--format", "prometheus").splitlines()
        mine = [line for line in lines if line.startswith("l3_mbm_total_bytes_total{") and f'pod="{name}"' in line]
        assert mine
        return sum(float(line.split()[-1]) for line in mine)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {"0.1": FIRST.read_text(), "this": succeeds("machineconfig")}


@pytest.mark.parametrize("runtime_name, before, after", [("runc", "0.1", "this"), ("crun", "this", "0.1")])
def test_running_containers_keep_their_groups_and_counts(
    podman: Callable[..., Podman],
    image: str,
    tmp_path: Path,
    resctrl: Resctrl,
    texts: dict[str, str],
    before: str,
    after: str,
) -> None:
    host = Delivered(str(tmp_path / "host"))
    host.bring(texts[before])
    engine = podman(host.write_hooks_d())
    for name in ("web", "db"):
        engine.command("run", "--detach", *QUIET, f"--name={name}", image, "sleep", "1000")
    groups = {path: there(path) for path in resctrl.groups()}
    assert len(groups) == 2, host.said()
    moved = 0.0

    def has_moved() -> bool:
        nonlocal moved
        moved = host.moved("web")
        return moved > 0

    wait_until(has_moved, "web has moved something")

    host.bring(texts[after])

    host.reconcile()
    assert {path: there(path) for path in resctrl.groups()} == groups
    assert place_of(engine.pid("web")).group == engine.inspect("web", "{{.Id}}")
    assert host.moved("web") >= moved
    engine.command("restart", "--time=0", "db")  # poststop and createRuntime, by the command that its bundle has
    assert place_of(engine.pid("db")).group == engine.inspect("db", "{{.Id}}"), host.said()
    engine.command("run", "--detach", *QUIET, "--name=new", image, "sleep", "1000")
    assert place_of(engine.pid("new")).group == engine.inspect("new", "{{.Id}}"), host.said()
    engine.command("rm", "--force", "--time=0", "web", "db", "new")
    host.reconcile()
    assert list(resctrl.groups()) == [], host.said()
    assert host.records() == []
