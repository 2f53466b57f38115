"""Limits pods, ends limits, and lists active limits.

Each limit of a pod is one change of `Store`. Its entry belongs to the command's process until all values are written,
so a killed command leaves no limit; then to its end, or to the pod's.
"""

import os
import posix
import pwd
from collections.abc import Callable, Sequence

from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.log import NOTICE
from resctrl_hooks.core.node.names import clean
from resctrl_hooks.core.node.restored import Restored
from resctrl_hooks.observe.node.temporary.address import Address, is_same
from resctrl_hooks.observe.node.temporary.file import TemporaryError
from resctrl_hooks.observe.node.temporary.limits import NAME
from resctrl_hooks.observe.node.temporary.store import Store, boot_time

from .model import Limit, Value, limit_of
from .planner import Plan

FOREVER = 1e12
"""Seconds of a limit until its pod's end."""
_STAGE = "limit"
_LONGEST_REASON = 200


class Limiter:
    """The limits of a node.

    Args:
        context: the node.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = Store(context)

    def end_over(self) -> list[str]:
        """End limits that are over, which nothing has restored yet; return a line for each value that stays.

        Raises:
            TemporaryError: the file of changes is unreadable or damaged.
        """
        try:
            found = self._store.restore_over()
        except OSError:
            return []  # without a state directory there are none
        if found.done:
            self._log(f"restored after {found.owner} ended: {', '.join(found.done)}", "")
        foreign = [f"not restored: {one}" for one in found.foreign]
        return [*foreign, *(f"cannot restore {one}; reconcile tries again" for one in found.failed)]

    def limit(self, pod: Pod, plan: Plan, seconds: float, reason: str) -> None:
        """Write a pod's planned values, for so many seconds.

        Raises:
            TemporaryError: another limit or an experiment has changed a value, or the state directory is unusable.
            HookError: the kernel refuses a value. Nothing is changed then.
        """
        try:
            self._context.ledger.prepare()
            name = self._begin(pod, seconds, reason)
            done = False
            try:
                if plan.creates is not None:
                    self._store.make_class(name, plan.creates.name, plan.creates.lines)
                self._store.change(name, plan.values)
                self._store.keep(name)
                done = True
            finally:
                if not done:
                    self._store.end(name)
        except OSError as error:
            raise HookError.of_file(error, error.filename or self._store.path, "write") from error
        words = ", ".join(f"{address} = {value}" for address, value in plan.values.items())
        end = "until its end" if seconds >= FOREVER else f"for {seconds:.0f} s"
        self._log(f"{pod.name} limited by {_user()} {end}: {words}{f' ({reason})' if reason else ''}", pod.key)

    def _begin(self, pod: Pod, seconds: float, reason: str) -> str:
        owner, taken = f"`limit` of {_user()}", self._store.entries()
        while True:
            number = next(one for one in range(1, len(taken) + 2) if f"{NAME}{one}" not in taken)
            name = f"{NAME}{number}"
            try:
                self._store.begin(
                    name, owner, clean(reason)[:_LONGEST_REASON], pod.key, seconds, posix.getpid(), follows=True
                )
            except TemporaryError:
                taken = self._store.entries()
                if name not in taken:  # else another call has just taken it
                    raise
            else:
                return name

    def limits(self, named: Callable[[str], str]) -> list[Limit]:
        """Return the active limits; ``named`` returns a pod's name.

        Raises:
            TemporaryError: the file of changes is unreadable or damaged.
        """
        now = boot_time()
        found = {name: one for name, one in self._store.entries().items() if name.startswith(NAME)}
        return [limit_of(name, one, named(one.record["key"]), now, self._now) for name, one in found.items()]

    def _now(self, address: Address) -> str | None:
        try:
            return self._store.read(address)
        except HookError:
            return None

    def end(self, limits: Sequence[Limit]) -> Restored:
        """End limits; return what was restored.

        Raises:
            HookError: the state directory cannot be used.
        """
        all_ = Restored("")
        for one in limits:
            try:
                found = self._store.end(one.id)
            except OSError as error:
                raise HookError.of_file(error, error.filename or self._store.path, "write") from error
            except TemporaryError as error:  # such as of a full disk: the other limits end
                all_.failed.append(f"the limit of {one.pod}: {error}")
                continue
            for field in ("done", "foreign", "failed"):
                getattr(all_, field).extend(getattr(found, field))
            self._log(
                f"limit of {one.pod} ended by {_user()}: {', '.join(found.done) or 'nothing to restore'}", one.key
            )
        return all_

    def _log(self, message: str, key: str) -> None:
        from resctrl_hooks.core.node.log import Log  # noqa: PLC0415  # only changes are logged, see `open_node`

        Log(self._context.settings.log)(NOTICE, clean(message), stage=_STAGE, key=key)


def is_in_force(value: Value) -> bool:
    """Return whether a value is still as the limit wrote it."""
    return value.now is not None and is_same(value.address, value.now, value.limit)


def _user() -> str:
    """Return who runs the command: the user before sudo, if there is one."""
    if name := os.environ.get("SUDO_USER"):
        return clean(name)[:64]
    try:
        return pwd.getpwuid(posix.getuid()).pw_name
    except KeyError:
        return str(posix.getuid())
