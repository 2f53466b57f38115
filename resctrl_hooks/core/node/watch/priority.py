"""The watcher's scheduling policy: processes of a millisecond have ended before an ordinary task gets its turn.

On a busy machine an ordinary watcher sees four of ten `/bin/true`, one with the lowest realtime priority all of them
(docs/dev/results.md). `watcher.URGENT` bounds what that may take from others.
"""

import posix

_LOWEST = 1


def become_urgent() -> None:
    """Take the lowest realtime priority, for this process and not its children; without permission stay as it is."""
    _set(posix.SCHED_RR | posix.SCHED_RESET_ON_FORK, _LOWEST)


def become_ordinary() -> None:
    """Return to the default scheduling policy."""
    _set(posix.SCHED_OTHER, 0)


def _set(policy: int, priority: int) -> None:
    try:
        posix.sched_setscheduler(0, policy, posix.sched_param(priority))
    except (OSError, AttributeError):
        pass  # no CAP_SYS_NICE, or a kernel that divides realtime among cgroups (CONFIG_RT_GROUP_SCHED)
