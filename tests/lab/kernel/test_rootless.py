"""Rootless Podman runs the same hooks as root of a user namespace of its own: our hook must not be noticed there."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.bundles import FIRST_INSTRUCTION, write_hook
from kernel.groups import Place, Resctrl, parse_place
from kernel.installed import Staged
from kernel.runtimes import Podman, run

USER = "user"
IMAGE = "localhost/busybox:rootless"
WITNESS = """#!/bin/sh
# $1: a folder; the rest: a hook, whose end this script's is
to=$(mktemp "$1/callXXXXXX"); shift
"$@" >"$to.said" 2>&1; status=$?
echo "$status" $(cat /proc/self/uid_map) >"$to.end"
exit $status
"""


@pytest.fixture
def folder() -> Iterator[str]:
    """One that everybody may read, as those below /usr."""
    made = tempfile.mkdtemp(dir="/var/tmp")
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def staged(folder: str) -> Staged:
    """Return the hook, which refuses whatever it can't monitor."""
    return Staged(f"{folder}/host", runtime="podman", failurePolicy="fail")


class Calls:
    """The staged hook with a recorder around it, and the results of its calls."""

    def __init__(self, staged: Staged, folder: str, user: pwd.struct_passwd) -> None:
        self.folder, script, self.hooks = (f"{folder}/{name}" for name in ("calls", "witness", "hooks.d"))
        os.mkdir(self.folder)
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        with open(script, "w", encoding="utf-8") as out:
            out.write(WITNESS)
        os.chmod(script, 0o755)
        hook = {"path": script, "args": [script, self.folder, *staged.hook["args"]], "env": ["PATH=/usr/bin:/bin"]}
        write_hook(f"{self.hooks}/hook.json", hook, "createRuntime", "poststop")

    def ends(self) -> list[list[str]]:
        """Of each call: its exit status, and the map of the namespace in which it ran."""
        return [path.read_text().split() for path in Path(self.folder).glob("*.end")]

    def said(self) -> str:
        """Return the output of all of them."""
        return "".join(path.read_text() for path in Path(self.folder).glob("*.said"))


class Rootless(Podman):
    """Podman of an ordinary user."""

    def __init__(self, runtime: str, hooks: str, home: str, user: pwd.struct_passwd) -> None:
        super().__init__(runtime, "cgroupfs", hooks)
        environment = [f"HOME={home}", f"XDG_RUNTIME_DIR={home}/run", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"]
        identity = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--reset-env"]
        self.words = [*identity, "env", "--chdir=/", *environment, *self.words]


@pytest.fixture
def calls(staged: Staged, folder: str) -> Calls:
    return Calls(staged, folder, pwd.getpwnam(USER))


@pytest.fixture
def rootless(runtime_name: str, calls: Calls, folder: str, rootfs: str) -> Iterator[Rootless]:
    user = pwd.getpwnam(USER)
    home = f"{folder}/home"
    os.mkdir(home)
    os.mkdir(f"{home}/run", 0o700)
    archive = f"{home}/image.tar"
    run(["tar", "-C", rootfs, "-cf", archive, "."])
    for path in (home, f"{home}/run", archive):
        os.chown(path, user.pw_uid, user.pw_gid)
    made = Rootless(runtime_name, calls.hooks, home, user)
    made.command("import", "--quiet", archive, IMAGE)
    yield made
    made.clean()
    made.command("system", "migrate", check=False)  # ends the process that keeps the namespace


def test_hook_ignores_rootless_containers(rootless: Rootless, calls: Calls, staged: Staged, resctrl: Resctrl) -> None:
    # With a state longer than a pipe: SIGPIPE kills crun if its reader leaves it unread.
    large = f"--annotation=example={'x' * 100_000}"
    words = ["run", "--network=none", "--log-driver=k8s-file", large]
    if rootless.runtime == "crun":  # runc can't do without, and does without where it may not
        words.append("--cgroups=disabled")
    assert parse_place(rootless.command(*words, "--rm", IMAGE, *FIRST_INSTRUCTION)) == Place("", "")
    rootless.command(*words, "--detach", "--name=m", IMAGE, "/bin/sleep", "1000")
    rootless.command("rm", "--force", "--time=0", "m")
    namespace = [*("0", str(pwd.getpwnam(USER).pw_uid), "1"), *("1", "100000", "65536")]
    assert calls.ends() == [["0", *namespace]] * 4
    assert calls.said() == ""
    assert list(resctrl.groups()) == []
    assert staged.said() == ""
    assert not os.path.exists(staged.state)
