"""The command line that hooks call, made so that a container survives whatever becomes of our files.

A hook's command is baked into each container's bundle, and a runtime fails a container whose hook can't be executed or
exits with anything but 0. So the hook's path is ``/bin/sh``, which doesn't vanish, and what it runs comes with the
command itself:

- `GUARD` runs the rest and turns every exit status but 79, the refusal, into 0: interpreter missing, code missing or
  half of it, killed by a signal, no process to be had (the EXIT trap also runs where the shell itself gives up). What
  the hook says is passed on; what a broken one says is cut to its last line. Whatever of the state nobody has read is
  read at the end, for crun dies of SIGPIPE where its hook ends without that (a pipe holds 64 KiB, and a pod's
  annotations may be longer); by the shell's own `read`, which needs no process, 0.3 s for a MiB. After a hook that has
  read it all, as one does that is not broken, that is one system call.
- `START` arms two alarms before it opens any file of ours, so that one which hangs ends long before the runtime's own
  timeout, which would fail the container: one in processor time, for a dead loop, and one in real time, for what waits
  (a FIFO in a file's place, a file system that doesn't answer). The latter has to be so long that no healthy hook on a
  starved node reaches it; the hook's own deadline, which can tell the two, takes over when it has read its settings.
  Both kill, as a handler in Python would not end what the kernel only ends for a fatal signal. `setitimer(2)` in the
  interpreter itself costs nothing that can be measured; ``timeout(1)`` in the guard would cost 8 % of a bare
  interpreter, as much as the guard, and would count the interpreter's own start, which load can make very long.
  Before that it unblocks all signals: crun creates containers with every signal blocked, and its hooks inherit that; no
  alarm would reach them, nor SIGTERM a program that they start.
  It executes the file's bytes as they are: `compile()` would build the interpreter's table of syntax tree types, 16 %.
"""

from typing import Final

from .paths import LAUNCH, PYTHON

SHELL: Final = "/bin/sh"
REFUSED: Final = 79
ALARM: Final = 30
"""Seconds until a hook that hangs before its own deadline is armed is killed."""
BUSY_ALARM: Final = 5
"""Seconds of processor time until a hook in a dead loop is killed."""
TIMEOUT: Final = 300
"""Seconds after which the runtime kills the hook and fails the container: a last resort, which load must not reach.

The runtime counts from before the shell and the interpreter have started, which on a node with too much to do can take
longer than all that the hook does.
"""

GUARD: Final = f"""s=0
trap 'while read -r o; do :; done; [ "$s" -eq {REFUSED} ] && exit {REFUSED}; exit 0' EXIT
o=$("$@" 2>&1)
s=$?
[ -z "$o" ] && exit
trap "" PIPE
case $s in
0|{REFUSED}) printf "%s\\n" "$o" >&2 ;;
*) printf "resctrl-hook: broken (status %s), the container starts without it: %s\\n" "$s" "${{o##*
}}" >&2 ;;
esac
"""

START: Final = (
    "import sys;from _signal import ITIMER_PROF,SIG_SETMASK,alarm,pthread_sigmask,setitimer;"
    f"pthread_sigmask(SIG_SETMASK,());setitimer(ITIMER_PROF,{BUSY_ALARM});alarm({ALARM});"
    "del sys.argv[0];__file__=sys.argv[0];"
    'exec(open(__file__,"rb").read())'
)

# -I and -S: no environment, no site packages, no user's files; -B: a hook never writes code.
INTERPRETER_OPTIONS: Final = ("-I", "-S", "-B")


def hook_command(config: str, *, launch: str = LAUNCH, python: str = PYTHON) -> list[str]:
    """Return the hook's argument vector: each path is an argument of its own."""
    return [
        SHELL,
        "-c",
        GUARD,
        "resctrl-hook",
        python,
        *INTERPRETER_OPTIONS,
        "-c",
        START,
        launch,
        "--config",
        config,
        "hook",
    ]


def node_command(config: str, *arguments: str, launch: str = LAUNCH, python: str = PYTHON) -> list[str]:
    """Return the argument vector of another command of the node half, for units: no guard and no alarm."""
    return [python, *INTERPRETER_OPTIONS, launch, "--config", config, *arguments]
