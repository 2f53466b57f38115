"""The command line of the hooks, which protects containers from missing, damaged or hanging files of this program.

A runtime fails a container whose hook cannot be executed or exits with a status other than 0, and stores the command in
each container's bundle. So the hook's path is ``/bin/sh``, and the command contains the script `GUARD`.
"""

from typing import Final

from .paths import LAUNCH, PYTHON

SHELL: Final = "/bin/sh"
REFUSED: Final = 79
ALARM: Final = 30
"""Seconds after which a hook is killed that hangs before its own deadline is armed."""
BUSY_ALARM: Final = 5
"""Seconds of processor time after which a hook in a busy loop is killed."""
TIMEOUT: Final = 300
"""Seconds after which the runtime kills the hook and fails the container: a last resort that load must not reach. The
runtime also counts the start of shell and interpreter, which can take longer than the hook on an overloaded node."""

# Runs the rest and turns every exit status into 0, except 79, the refusal: interpreter or code missing, killed by a
# signal, no process available (the EXIT trap also runs if the shell itself gives up). A hook's output is passed on;
# that of a broken one is cut to its last line. The rest of the state is read at the end, because crun dies of SIGPIPE
# if its hook leaves input unread (a pipe holds 64 KiB, and a pod's annotations may be longer). The shell's own `read`
# needs no process and takes 0.3 s for a MiB, or one system call if the hook has read everything.
GUARD: Final = f"""s=0
trap 'while read -r o; do :; done; [ "$s" -eq {REFUSED} ] && exit {REFUSED}; exit 0' EXIT
o=$("$@" 2>&1)
s=$?
[ -z "$o" ] && exit
trap "" PIPE
case $s in
0|{REFUSED}) printf "%s\\n" "$o" >&2 ;;
*) printf "resctrl-hook: broken (status %s), container started without resctrl-hooks: %s\\n" "$s" "${{o##*
}}" >&2 ;;
esac
"""

# Arms two alarms before it opens a file, so that a hanging hook ends before the runtime's own timeout, which would
# fail the container: processor time for a busy loop, and real time for a blocking file (a FIFO, a dead file system).
# The latter must exceed the run time of a healthy hook on an overloaded node; the hook's own deadline, which
# distinguishes the two, takes over once its settings are read. Both alarms kill, because a handler in Python would not
# end a system call that ends only for a fatal signal. `setitimer(2)` has no measurable cost; ``timeout(1)`` would cost
# 8 % of a bare interpreter and would include the interpreter's start, which load can make very long. Signals are
# unblocked first: crun creates containers with every signal blocked, and hooks inherit that mask. It executes the
# file's bytes directly: `compile()` would build the interpreter's table of syntax tree types, 16 % of its start.
START: Final = (
    "import sys,_signal as s;"
    f"s.pthread_sigmask(s.SIG_SETMASK,());s.setitimer(s.ITIMER_PROF,{BUSY_ALARM});s.alarm({ALARM});"
    "del sys.argv[0];__file__=sys.argv[0];"
    'exec(open(__file__,"rb").read())'
)

# -I and -S: no environment, no site packages, no user files. -B: a hook never writes bytecode.
INTERPRETER_OPTIONS: Final = ("-I", "-S", "-B")


def hook_command(config: str, *, launch: str = LAUNCH, python: str = PYTHON) -> list[str]:
    """Return the hook's argument vector; each path is an argument of its own."""
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


def node_command(config: str, *arguments: str, python: str = PYTHON) -> list[str]:
    """Return the argument vector of another command of the node half, for units, without guard and alarm."""
    return [python, *INTERPRETER_OPTIONS, LAUNCH, "--config", config, *arguments]
