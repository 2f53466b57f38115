"""The process that serves a simulation: `python -m resctrl_hooks.simulation MOUNTPOINT MACHINE READY`.

`mount.start` starts it. MACHINE is the hardware as JSON; READY is a descriptor that gets one byte when it is mounted.
"""

import json
import os
import sys

from .machine import Machine
from .mount import SimulationError, serve_here


def main() -> None:
    """Mount, tell, serve."""
    mountpoint, machine, ready = sys.argv[1:]

    def tell() -> None:
        os.write(int(ready), b"1")
        os.close(int(ready))
        # From here on nobody listens: a pipe that is kept open would make its reader wait for ever.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)

    try:
        serve_here(mountpoint, Machine(**json.loads(machine)), tell)
    except SimulationError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
