"""Installations, removals, edits and kills in any order: the host works, and nothing foreign changes."""

import itertools
import json
import os
import posix
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.install.staged import CONFIG, given, run
from resctrl_hooks.core.install import directories, installation, plan
from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.hook_json import hook_problems
from resctrl_hooks.core.install.manifest import Manifest, read_manifest
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, CODE, HOOK_NAME, LAUNCH, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.install.present import named_folder
from resctrl_hooks.core.install.roles import HOOK, LINK, ROLES
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.node.host.unfinished import DURABLE

CHANGES = ("open", "rename", "unlink", "mkdir", "rmdir", "symlink", "fchmod", "chmod")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FOREIGN = {
    f"{VENDOR_HOOKS}/mine.json": "mine",
    f"{UNITS}/mine.service": "mine",
    f"{UNITS}/multi-user.target.wants/mine.service": "mine",
    "/usr/local/libexec/mine": "mine",
    "/etc/crio/crio.conf.d/10-mine.conf": "# mine\n",
}
SETTINGS = [CONFIG, CONFIG.replace(".yaml", ".json"), CONFIG.replace(".yaml", ".last.json")]
Content = dict[str, tuple[int, bytes | str]]


VERSIONS = {
    f"node-{digit * 12}": Payload(
        digit, f"node-{digit * 12}", {f"core/node/{name}.py": digit.encode() for name in ("a", "launch")}
    )
    for digit in "01"
}
"""Small node halves."""


class KilledError(BaseException):
    """The end of the process, which no handler of errors stops."""


@contextmanager
def killed_before(number: int, root: Path) -> Iterator[None]:
    """Let the change below a root with this number raise, and all that follow, so that nothing is cleaned up."""
    left = number

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def change(path: str | int, *arguments: object, **options: object) -> object:
            nonlocal left
            writes = real is not os_open or (isinstance(arguments[0], int) and arguments[0] & WRITES)
            if writes and (isinstance(path, int) or path.startswith(str(root))):
                left -= 1
                if left < 0:
                    raise KilledError
            return real(path, *arguments, **options)

        return change

    os_open = os.open
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            for module in (os, posix):
                if hasattr(module, name):
                    patch.setattr(module, name, dying(getattr(module, name)))
        yield


def content(root: Path) -> Content:
    """Return the mode and content of each file below a root; temporary files of killed calls are left out."""
    return {
        f"/{path.relative_to(root)}": (
            path.lstat().st_mode,
            os.readlink(path) if path.is_symlink() else path.read_bytes(),
        )
        for path in root.rglob("*")
        if (path.is_symlink() or path.is_file()) and not path.name.endswith(DURABLE)
    }


class Node:
    """A host below a folder, with what its runtimes and its operator expect of it.

    Args:
        writable: whether the vendor's folder of hooks is; if not, a hook needs a drop-in.
    """

    def __init__(self, *, writable: bool = True) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="node-"))
        self.tree = Tree(str(self.root))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(posix, "fsync", lambda _: None)
        self.patch.setattr(installation, "compile_modules", lambda *_, **__: None)
        if not writable:
            self.patch.setattr(directories, "_writable", lambda path: "/usr/share" not in path)
        for path, text in FOREIGN.items():
            given(self.root, path, text)
        self.foreign = content(self.root)
        self.edited = ""
        self.whole = False
        """Whether an installation is complete and nothing was removed since."""

    def end(self) -> None:
        """Uninstall, and remove the folder."""
        try:
            self.uninstall()
            assert run("uninstall", "--root", str(self.root)).output.endswith(f"is not installed below {self.root}\n")
        finally:
            self.patch.undo()
            shutil.rmtree(self.root)

    @property
    def record(self) -> Manifest | None:
        return read_manifest(self.tree)

    def command(self, *words: str, kill: int | None = None) -> str | None:
        """Return the output of a command; None if it was killed."""
        try:
            with killed_before(kill if kill is not None else 1 << 30, self.root):
                done = run(*words, "--root", str(self.root))
        except KilledError:
            return None
        assert done.exit_code == 0, done.output
        return done.output

    def install(self, folder: str, *words: str, kill: int | None = None) -> bool:
        """Install a version, after a dry run; return whether that was completed."""
        self.patch.setattr(plan, "payload", lambda *_, **__: VERSIONS[folder])
        before = content(self.root)
        planned = (self.command("install", "-v", "--dry-run", *words) or "").splitlines()
        assert content(self.root) == before
        lines = [line.split() for line in planned]
        listed = [line[2:] for line in lines if len(line) == 4 and line[2] in ALL_ROLES]
        roles = [ROLES.index(role) for role, _ in listed[1:]]
        assert roles == sorted(roles)
        assert listed[-1][0] in (HOOK, "drop-in")
        self.whole = False
        if self.command("install", "-v", *words, kill=kill) is None:
            return False
        after = content(self.root)
        assert {path for path, it in after.items() if before.get(path) != it} <= {path for _, path in listed}
        assert {path for _, path in listed} <= after.keys()
        assert named_folder(self.tree) == folder
        self.command("install", *words)  # it removes the modules that hooks were loading
        once = content(self.root)
        there = {path: (self.root / path[1:]).lstat().st_ino for path in once}
        printed = self.command("install", *words) or ""
        assert "/" not in "".join(line for line in printed.splitlines() if not line.startswith(("note", "installed")))
        again = content(self.root)
        assert again == once
        same = {path for path in again if (self.root / path[1:]).lstat().st_ino == there[path]}
        assert again.keys() - same <= {f"{CODE}/manifest.json"}
        assert after.keys() - once.keys() <= {path for path in after if path.startswith(f"{CODE}/node-")}
        self.whole = True
        return True

    def uninstall(self, *words: str, kill: int | None = None) -> bool:
        """Uninstall, after a dry run; return whether that was completed."""
        before, record = content(self.root), self.record
        planned = (self.command("uninstall", "--dry-run", *words) or "").splitlines()
        assert content(self.root) == before
        listed = [(line.split()[0], line.split()[1].rstrip("/")) for line in planned if line.split()[0] in ALL_ROLES]
        self.whole = False
        printed = self.command("uninstall", *words, kill=kill)
        if printed is None:
            return False
        told = [line.split()[1].rstrip("/") for line in printed.splitlines() if line.startswith("removed ")]
        assert told == [path for role, path in listed if role not in (LINK, "manifest")]
        after = content(self.root)
        gone = {path for path in before if path not in after}
        assert [path for path in gone if not any(f"{path}/".startswith(f"{one}/") for _, one in listed)] == []
        assert not {path for _, path in listed} & after.keys()
        assert {path for path in after if before[path] != after[path]} <= {f"{CODE}/manifest.json"}
        others = set(record.runtimes) - {*words} if record else set()
        if words == ("--hooks-only",):
            assert not [path for path in after if path.endswith(HOOK_NAME)]
        elif words and others:
            assert self.record is not None
            assert set(self.record.runtimes) == others
            assert record
            of = record.runtime_files
            theirs = {path for name in others for path in of.get(name, [])}
            assert theirs & before.keys() <= after.keys()
            assert not after.keys() & ({path for name in words for path in of.get(name, [])} - theirs)
        else:
            left = {path: it for path, it in after.items() if self.foreign.get(path) != it}
            assert left.keys() <= ({*SETTINGS} if self.edited else set())
            assert not list(self.root.rglob(f"*.{DURABLE}"))
        return True

    def check(self) -> None:
        """Check all that a runtime reads, whether or not the last call was killed."""
        now = content(self.root)
        assert {path: now.get(path) for path in self.foreign} == self.foreign
        if self.edited:
            assert now[CONFIG][1] == self.edited.encode()
        hooks = [path for path in now if path.endswith(HOOK_NAME)]
        drop_ins = [path for path in now if path.endswith("90-resctrl-hooks.conf")]
        for path in hooks:
            data = now[path][1]
            assert isinstance(data, bytes)
            assert hook_problems(data) == []
            words = json.loads(data)["hook"]["args"]
            assert words[words.index("--config") + 1] == CONFIG
            assert LAUNCH in words
            assert json.loads(now[SETTINGS[1]][1])["format"] == 1
            modules = {path: it[1] for path, it in now.items() if path.startswith(f"{CODE}/{named_folder(self.tree)}/")}
            runs = VERSIONS[named_folder(self.tree)]
            assert modules == {f"{CODE}/{runs.folder}/{name}": data for name, data in runs.modules.items()}
        assert all(bytes(now[path][1]).endswith(b"\n") for path in drop_ins)  # type: ignore[arg-type]
        assert not drop_ins or LAUNCH in now
        assert not [path for path in hooks if path.startswith(ADMIN_HOOKS)] or drop_ins or "containerd" in RUNTIMES
        if self.whole:
            assert self.record is not None
            assert self.record.complete
            assert self.record.files.keys() <= now.keys()
            timers = {path for path in now if path.startswith(UNITS) and path.endswith((".timer", ".path"))}
            assert {path for path in timers if ".wants/" not in path} <= {*self.record.files}


ALL_ROLES = {*ROLES, "manifest"}
KILL = st.none() | st.integers(0, 70)
TEXTS = ("namespaces: [shop]\n", "groupPrefix: mine-\n")


@settings(max_examples=30, stateful_step_count=6, deadline=None, suppress_health_check=[*HealthCheck])
class Sequences(RuleBasedStateMachine):
    """A node of an operator who does anything at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(writable=True)

    @rule(
        folder=st.sampled_from([*VERSIONS]),
        runtime=st.sampled_from([*RUNTIMES]),
        words=st.sampled_from([(), ("--nfd",), ("--no-nfd", "--no-units"), ("--units",)]),
        kill=KILL,
    )
    def install(self, folder: str, runtime: str, words: tuple[str, ...], kill: int | None) -> None:
        self.node.install(folder, "--runtime", runtime, *words, kill=kill)

    @rule(words=st.sampled_from([(), ("--hooks-only",), *(("--runtime", name) for name in RUNTIMES)]), kill=KILL)
    def uninstall(self, words: tuple[str, ...], kill: int | None) -> None:
        self.node.uninstall(*words, kill=kill)

    @rule(text=st.sampled_from(TEXTS))
    def edit(self, text: str) -> None:
        given(self.node.root, CONFIG, text)
        self.node.edited = text

    @invariant()
    def works(self) -> None:
        self.node.check()

    def teardown(self) -> None:
        self.node.end()


TestSequences = Sequences.TestCase


@pytest.mark.ci
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("runtime", ["crio", "podman"])
@pytest.mark.parametrize("before, act", [("", "install"), ("0", "install"), ("1", "uninstall")])
def test_kill_at_each_change_leaves_a_working_host(before: str, act: str, runtime: str, *, writable: bool) -> None:
    former, latest = f"node-{before * 12}" if before else "", "node-" + "1" * 12
    words = ("--runtime", runtime)
    seen, done = set(), False
    for number in itertools.count():
        if done:
            break
        node = Node(writable=writable)
        if before:
            node.install(former, *words)
        done = node.install(latest, *words, kill=number) if act == "install" else node.uninstall(kill=number)
        node.check()
        seen.add(named_folder(node.tree))
        if number % 2:
            node.install(latest, *words)
        node.end()
    assert seen == {former, latest if act == "install" else ""}
