"""The process that serves a simulation: `python -m resctrl_hooks.lab.simulation MOUNTPOINT MACHINE READY LOAD`.

`mount.start` starts it. MACHINE is the hardware as JSON; READY is a descriptor that gets one byte after the mount.
LOAD is the file of the pods' work, or empty.
"""

import json
import os
import sys

from resctrl_hooks.core.fuse import MountError

from .machine import Machine
from .mount import serve_here


def main() -> None:
    """Mount the simulation, report that, and serve it."""
    mountpoint, machine, ready, load = sys.argv[1:]

    def report_mounted() -> None:
        os.write(int(ready), b"1")
        os.close(int(ready))
        # Close the pipe of the parent: its reader would otherwise wait for ever.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)

    try:
        serve_here(mountpoint, Machine(**json.loads(machine)), report_mounted, load)
    except MountError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
