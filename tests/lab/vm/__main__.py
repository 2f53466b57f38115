"""A real resctrl without RDT hardware: builds, boots and uses the guest. See docs/dev/guest.md.

    python3 tests/lab/vm build                       build it, if it isn't built
    python3 tests/lab/vm test [pytest arguments]     run the kernel tests in it (what nox -s kernel does)
    python3 tests/lab/vm run -- COMMAND [ARGUMENT…]  run a command in it, in the project's folder
    python3 tests/lab/vm shell                       a shell in it; `exit` ends it, so does ^A x
    python3 tests/lab/vm path                        print the cache folder

Options, after the word and before the arguments: --kernel, --init, --limit, --seconds, --jobs, --again, and what a boot
(machine.Boot) can be told: --rmids, --closids, --occupancy, --cpus, --numa, --count, --amd, --counters, --snc, --width,
--near, --sparse, --sockets, --threads, --bandwidth, --core, --memory_cpus, --root, --pmu, --cache, --rdt, --hmat,
--dimms.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import sys
import time

import cache
import kernels
import machine
import suite
from cache import VmError, say

NOT_BUILT = 98  # exit status of `build` if the guest can't be built here, so that CI can tell this from failing tests
NOT_FINISHED = 99
NUMBERS = (*machine.PLUGIN_OPTIONS, "cpus", "numa", "sockets", "threads", "rdt", "hmat", "dimms")
COMMANDS = ("build", "test", "run", "shell", "path")


def _parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="tests/lab/vm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--kernel", choices=kernels.NAMES, default=kernels.OWN, help="Debian's kernel to boot")
    parser.add_argument("--init", choices=("shell", "systemd"), default=machine.Boot.init)
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int, default=getattr(machine.Boot, name))
    parser.add_argument("--limit", type=float, default=3600, help="seconds that one boot may take")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="that all boots of `test` may take")
    parser.add_argument("--jobs", type=int, default=suite.jobs_here(), help="boots of `test` at the same time")
    parser.add_argument("--again", action="store_true", help="a failing test has a second chance in a boot of its own")
    parser.add_argument("--counts-to", default="", help="a file for the numbers of `test`, as JSON")
    if "--" in words:  # the following arguments are not ours
        end = words.index("--")
        return parser.parse_args(words[:end]), words[end + 1 :]
    return parser.parse_known_args(words)


def main(words: list[str]) -> int:
    """Return the command line; the exit status."""
    options, rest = _parse(words)
    boot = machine.Boot(init=options.init, **{name: getattr(options, name) for name in NUMBERS})
    machine.terminate_as_interrupt()
    if options.command == "path":
        print(cache.folder())  # the answer
        return 0
    with contextlib.ExitStack() as parts:
        try:
            built = parts.enter_context(machine.built(options.kernel))
        except VmError as trouble:
            say(f"cannot build the guest: {trouble}")
            return NOT_BUILT
        if options.command == "build":
            return 0
        if options.command == "test":
            how = suite.Suite(built, boot, options.limit, time.monotonic() + options.seconds, options.jobs)
            return suite.run(how, rest, kernel=options.kernel, again=options.again, counts_to=options.counts_to)
        return _run(built, boot, rest, shell=options.command == "shell", limit=options.limit)


def _run(built: machine.Machine, boot: machine.Boot, words: list[str], *, shell: bool, limit: float) -> int:
    """Return a command, or a shell on this terminal, in the guest; its exit status."""
    environment = {"RESCTRL_ROOT": suite.ROOT}
    script = shlex.join(words)
    if shell:
        columns, lines = shutil.get_terminal_size()
        script = f"stty cols {columns} rows {lines} 2>/dev/null; exec bash"
        environment["TERM"] = os.environ.get("TERM", "dumb")
    return machine.boot_once(built, boot, script, cache.new_run(), limit=limit, shell=shell, environment=environment)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except VmError as problem:
        say(str(problem))
        sys.exit(NOT_FINISHED)
    except KeyboardInterrupt:
        sys.exit(130)
