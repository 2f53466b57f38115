"""The installer killed before each of its changes in turn: what is registered runs, and another call ends right."""

import json
import os
import posix
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.install.staged import HOOKS, call, command, files, install, run, uninstall
from resctrl_hooks.core.install.hook_json import hook_problems
from resctrl_hooks.core.install.payload import Payload

pytestmark = pytest.mark.no_cover
CHANGES = ("open", "rename", "unlink", "mkdir", "rmdir", "symlink", "fchmod", "chmod")
KILLED = 137
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def version(name: str, digit: str) -> Payload:
    """Return a small node half that says which version of it runs, if all of it is there."""
    launch = (
        "import sys\nfolder = __file__.rpartition('/core/node/')[0]\n"
        "parts = [open(f'{folder}/{part}.py').read().strip() for part in 'abc']\n"
        "sys.stderr.write(' '.join(parts))\n"
    )
    parts = {f"{part}.py": f"{name}\n".encode() for part in "abc"}
    return Payload(name, f"node-{digit * 12}", parts | {"core/node/launch.py": launch.encode()})


OLD, NEW = version("old", "0"), version("new", "1")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr("resctrl_hooks.core.install.installation.compile_modules", lambda *_, **__: None)


def killed_before(number: int, act: Callable[[], object]) -> bool:
    """Do something in a child that dies before its change number so-and-so; say whether it came to that."""
    child = os.fork()
    if child == 0:
        try:
            _die_at(number)
            act()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  # nothing may get out of the child
            os.write(2, repr(error).encode())
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED)
    return status == KILLED


def _die_at(number: int) -> None:
    left = number

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def change(*arguments: object, **options: object) -> object:
            nonlocal left
            if real is not os_open or (isinstance(arguments[1], int) and arguments[1] & WRITES):
                if left == 0:
                    os._exit(KILLED)
                left -= 1
            return real(*arguments, **options)

        return change

    os_open = os.open
    for name in CHANGES:
        for module in (os, posix):
            if hasattr(module, name):
                setattr(module, name, dying(getattr(module, name)))


def each_kill(root: Path, prepare: Callable[[], object], act: Callable[[], object]) -> Iterator[int]:
    """Yield the host below ``root`` after each point where ``act`` can be killed."""
    number = 0
    while True:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        prepare()
        if not killed_before(number, act):
            print(f"{number} kill points")
            return
        yield number
        number += 1


def runs(root: Path) -> str:
    """Which version runs by the hook's JSON, if there is one. All that a runtime could trip over is checked."""
    for path in (root / HOOKS.lstrip("/")).parent.glob("*.json"):
        assert hook_problems(path.read_bytes()) == []
    for path in root.rglob("*.conf"):
        assert path.read_bytes().endswith(b"\n")
    if not (root / HOOKS.lstrip("/")).exists():
        return ""
    words = command(root)
    assert os.path.exists(words[words.index("--config") + 1])
    done = call(words)
    assert done.returncode == 0
    return done.stderr.decode()


def content(root: Path) -> dict[str, object]:
    """Return all files with their content; for the record, its meaning."""
    found: dict[str, object] = {}
    for name in files(root):
        path = root / name.lstrip("/")
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes()
        if name.endswith("manifest.json"):
            record = json.loads(path.read_text())
            found[name] = {**record, "folders": "that were not there at the first attempt"}
    return found


def left(root: Path) -> set[str]:
    """Return the files below a root, without empty folders: those created before the first record stay."""
    return {name for name in files(root) if not (root / name.lstrip("/")).is_dir()}


def test_killed_install_leaves_working_host(tmp_path: Path, ship: Callable[[Payload], None]) -> None:
    ship(NEW)
    root, whole = tmp_path / "root", tmp_path / "whole"
    whole.mkdir()
    install(whole)
    seen = set()
    for number in each_kill(root, lambda: None, lambda: install(root)):
        seen.add(runs(root))
        if number % 2:
            install(root)
            assert content(root) == content(whole), number
        uninstall(root)
        assert left(root) == set(), number
    assert seen == {"", "new new new\n"}


def test_killed_upgrade_leaves_working_host(tmp_path: Path, ship: Callable[[Payload], None]) -> None:
    root, whole = tmp_path / "root", tmp_path / "whole"
    whole.mkdir()

    def old(where: Path) -> None:
        ship(OLD)
        install(where)
        ship(NEW)

    old(whole)
    install(whole)
    seen = set()
    for number in each_kill(root, lambda: old(root), lambda: install(root)):
        seen.add(runs(root))
        if number % 2:
            install(root)
            assert set(content(root)) | old_modules() == set(content(whole)), number
        uninstall(root)
        assert left(root) == set(), number
    assert seen == {"old old old\n", "new new new\n"}


def old_modules() -> set[str]:
    """Return the modules that an upgrade keeps for starting hooks, and that the next upgrade removes."""
    return {f"/usr/local/libexec/resctrl-hooks/{OLD.folder}/{name}" for name in OLD.modules}


def test_killed_uninstall_leaves_working_host(tmp_path: Path, ship: Callable[[Payload], None]) -> None:
    ship(NEW)
    root = tmp_path / "root"
    seen = set()
    for number in each_kill(root, lambda: install(root), lambda: run("uninstall", "--root", str(root))):
        seen.add(runs(root))
        uninstall(root)
        assert left(root) == set(), number
    assert seen == {"", "new new new\n"}


@pytest.mark.parametrize("runtime", ["crio", "podman"])
def test_killed_install_with_drop_in_leaves_working_host(
    tmp_path: Path, ship: Callable[[Payload], None], monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    ship(NEW)
    monkeypatch.setattr("resctrl_hooks.core.install.directories._writable", lambda path: "/usr/share" not in path)
    root = tmp_path / "root"
    for number in each_kill(root, lambda: None, lambda: install(root, runtime=runtime)):
        assert runs(root) == ""
        drop_ins = list(root.rglob("90-resctrl-hooks.conf"))
        registered = list(root.glob("etc/containers/oci/hooks.d/*.json"))
        assert not registered or drop_ins, number
        assert not drop_ins or (root / "usr/local/libexec/resctrl-hooks/launch.py").exists(), number
