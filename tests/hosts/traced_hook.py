"""The hook under strace: every system call of a run, and a run that ends at one of them."""

import json
import re
import subprocess
from collections import Counter
from typing import Any, NamedTuple

from conftest import PYTHON, Host

from hosts.node_half import put_node_half
from resctrl_hooks.core.install.guard import hook_command

PATH = {"PATH": "/usr/bin:/bin"}  # for strace; the hook itself needs none
# How often these are called depends on where the kernel put things; a kill there is one at the call before.
MEMORY = ("brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "getrandom", "futex")
ENDING = ("exit_group", "exit", "rt_sigreturn")
# System calls with lasting effects, in addition to an `openat` that creates a file. A read-only run has none.
EFFECTS = ("write", "mkdir", "rmdir", "unlink", "rename", "symlink", "chmod", "ftruncate", "clone", "fork", "kill")


class SystemCall(NamedTuple):
    """A system call of a run: its name, its number among those of that name, and its arguments without numbers."""

    name: str
    number: int
    given: str

    @property
    def is_effect(self) -> bool:
        """Whether it may change anything but the hook's own memory."""
        return self.name.startswith(EFFECTS) or self.name == "vfork" or "O_CREAT" in self.given

    def kill(self) -> str:
        """strace's option that kills the hook before it."""
        return f"--inject={self.name}:signal=KILL:when={self.number}"


class TracedHook:
    """The installed hook, its node half in one compiled file, so that no run writes bytecode for the next.

    strace runs between the guard and the interpreter.
    """

    def __init__(self, host: Host) -> None:
        self._config, self._narrow, self.trace = host.config, False, host.root / "trace"
        half = host.root / "half"
        self.launch = put_node_half(half)
        compile_it = f"import sys; sys.path.insert(0, {str(host.root)!r}); import half.core.node.bytecode as c; "
        compile_it += f"c.compile_folder({str(half)!r})"
        subprocess.run([PYTHON[0], "-I", "-B", "-c", compile_it], check=True)

    def run(self, state: dict[str, Any], *injection: str) -> subprocess.CompletedProcess[bytes]:
        """Call the hook as its JSON does.

        With injections that end it or a call, only the calls that they name are traced: that is faster.
        """
        ends = any(":signal=" in option or ":error=" in option for option in injection)
        names = [option.removeprefix("--inject=").partition(":")[0] for option in injection if ends]
        self._narrow = bool(names)
        narrow = [f"--trace={','.join(names)}"] if names else []
        trace = ["strace", "-s", "0", "-o", str(self.trace), *narrow, *injection]
        words = hook_command(str(self._config), launch=str(self.launch), python=PYTHON[0])
        first = words.index(PYTHON[0])
        whole = [*words[:first], *trace, *words[first:]]
        return subprocess.run(whole, input=json.dumps(state).encode(), capture_output=True, env=PATH, check=False)

    def calls(self) -> list[SystemCall]:
        """Every call of the last run since the launcher opened the compiled node half: nothing of ours comes before.

        Of a run with injections, all calls of those names.
        """
        count: Counter[str] = Counter()
        found = []
        ours = self._narrow
        for match in re.finditer(r"^(?:\d+ +)?(\w+)\((.*)", self.trace.read_text(), re.MULTILINE):
            name, given = match.groups()
            count[name] += 1
            ours = ours or (f"{self.launch.parents[2]}/compiled." in given and name == "openat")
            if ours and name not in (*MEMORY, *ENDING):
                given = re.sub(r"0x[0-9a-f]+|\d+", "#", re.sub(r" *<unfinished.*|\)? += .*", "", given))
                found.append(SystemCall(name, count[name], given))
        return found

    @property
    def was_refused(self) -> bool:
        """Whether one of the last run's calls was answered with an injected error."""
        return "(INJECTED)" in self.trace.read_text()

    @property
    def was_killed(self) -> bool:
        """Whether the last run was."""
        return "killed by SIGKILL" in self.trace.read_text()

    def was_killed_at(self, call: SystemCall) -> bool:
        """Return whether the last run was killed at this very call, or for one that changes nothing, at any."""
        last = self.calls()[-1]
        # The result of an interrupted call is missing here.
        same = last.name == call.name and call.given.startswith(last.given)
        return self.was_killed and (same or not call.is_effect)
