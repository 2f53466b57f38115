"""Membership of threads in groups: writes to `tasks`, and inheritance at a fork.

The kernel copies class and RMID at a fork. This process does not see forks, so it reads the descendants of a group's
tasks from /proc on demand; a process whose parent ended before that counts as one of the root group.
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field

from .errors import RefusedError
from .group import Group
from .proc import Proc

_INT = 1 << 31
_PRUNE_AT = 512
Caller = tuple[int, int]
"""Thread id and user id of the writer."""


@dataclass(slots=True, eq=False)
class Task:
    """A thread that was moved into a group, or that a thread in a group has started."""

    tid: int
    start: int
    group: Group
    before: set[int] = field(default_factory=set)
    """Its children from before it joined the group: they stay where they are."""


class Tasks:
    """The threads with a known group. Every other thread is in the root group."""

    def __init__(self, root: Group, proc: Proc) -> None:
        self._root = root
        self._proc = proc
        self._known: dict[int, Task] = {}
        self._by_group: dict[Group, set[int]] = {}
        self._prune_at = _PRUNE_AT

    def _put(self, tid: int, start: int, group: Group, before: set[int]) -> None:
        self._forget(tid)
        self._known[tid] = Task(tid, start, group, before)
        self._by_group.setdefault(group, set()).add(tid)

    def _forget(self, tid: int) -> None:
        task = self._known.pop(tid, None)
        if task is not None:
            self._by_group[task.group].discard(tid)
            if not self._by_group[task.group]:
                del self._by_group[task.group]

    def _started(self, tid: int) -> set[int]:
        return (self._proc.threads(tid) | self._proc.children(tid)) - {tid}

    def _follow(self, task: Task) -> None:
        """Move the task's descendants since it joined into its group."""
        waiting = [task]
        while waiting:
            parent = waiting.pop()
            started = self._started(parent.tid)
            parent.before &= started
            for tid in started - parent.before:
                life = self._proc.life(tid)
                if life is None or self._task(tid) is not None:
                    continue
                self._put(tid, life.start, parent.group, set())
                waiting.append(self._known[tid])

    def _task(self, tid: int) -> Task | None:
        """Return the task of a thread if it is still the thread that was moved."""
        task = self._known.get(tid)
        if task is None:
            return None
        life = self._proc.life(tid)
        if life is None or life.start != task.start:
            self._forget(tid)
            return None
        return task

    def group_of(self, tid: int) -> Group:
        """Return a thread's group: its own, or its nearest ancestor's at the time of its start."""
        child, seen = tid, set[int]()
        while child > 0 and child not in seen:
            seen.add(child)
            task = self._task(child)
            if task is not None:
                return task.group
            lineage = self._proc.lineage(child)
            if lineage is None:
                break
            parent = lineage[0] if child != lineage[0] else lineage[1]
            above = self._task(parent)
            if above is not None and child in above.before:
                break
            child = parent
        return self._root

    def write(self, text: str, group: Group, caller: Caller, touched: set[Group]) -> None:
        """Move threads as a write to a group's `tasks` does: one by one, until one cannot be moved.

        Args:
            text: The write: thread ids with commas between them, 0 for the writer.
            group: The target.
            caller: The writer.
            touched: Receives the groups that threads left or joined, even after an error.

        Raises:
            RefusedError: EINVAL for an invalid id and for a task of another class, ESRCH for a thread that is gone,
                EPERM for one that the writer does not own.
        """
        rest: str | None = text.partition("\0")[0]
        while rest and not rest.startswith("\n"):
            word, comma, tail = rest.partition(",")
            rest = tail if comma else None
            tid = _parse(word.strip())
            try:
                touched |= {self._move(tid or caller[0], group, caller[1]), group}
            except RefusedError as refused:
                words = (*refused.words, f"Error while processing task {tid}")
                raise RefusedError(refused.errno or errno.EINVAL, *words) from None

    def _move(self, tid: int, group: Group, uid: int) -> Group:
        """Move one thread, and return its previous group."""
        life = self._proc.life(tid)
        owners = self._proc.owners(tid) if uid else (0, 0)
        if life is None or owners is None:
            raise RefusedError(errno.ESRCH, f"No task {tid}")
        if uid and uid not in owners:
            raise RefusedError(errno.EPERM, f"No permission to move task {tid}")
        current = self.group_of(tid)
        if current is group:
            return group
        if group.parent is not None and current.ctrl is not group.parent:
            raise RefusedError(errno.EINVAL, "Can't move task to different control group")
        if current is not self._root:
            # Its existing children stay behind.
            if self._task(tid) is None:
                self._put(tid, life.start, current, set())
            self._follow(self._known[tid])
        self._put(tid, life.start, group, self._started(tid))
        self._prune()
        return current

    def _prune(self) -> None:
        """Forget threads that are gone; those of the root group are checked only here."""
        if len(self._known) >= self._prune_at:
            for tid in list(self._known):
                self._task(tid)
            self._prune_at = max(_PRUNE_AT, 2 * len(self._known))

    def hand_over(self, group: Group, heir: Group) -> None:
        """Move all tasks of a removed group."""
        self.of(group)
        for tid in self._by_group.pop(group, set()):
            self._known[tid].group = heir
            self._by_group.setdefault(heir, set()).add(tid)
        self._prune()

    def of(self, group: Group) -> list[int]:
        """Return the threads of a group itself, without those of its MON groups; of the root group only those known."""
        for tid in list(self._by_group.get(group, ())):
            task = self._task(tid)
            if task is not None:
                self._follow(task)
        return sorted(self._by_group.get(group, ()))

    def living(self, group: Group) -> int:
        """Return the number of the group's own threads that are not zombies."""
        return len(self._living(group))

    def _living(self, group: Group) -> list[int]:
        lives = ((tid, self._proc.life(tid)) for tid in self.of(group))
        return [tid for tid, life in lives if life is not None and not life.zombie]

    def cpus(self, group: Group) -> list[str]:
        """Return the CPUs that each thread of the group itself may run on; zombies are left out."""
        return [self._proc.cpus(tid) for tid in self._living(group)]

    def listed(self, group: Group) -> list[int]:
        """Return the content of `tasks`: a CTRL group lists its MON groups' tasks too."""
        if group is not self._root:
            return sorted(tid for member in group.family() for tid in self.of(member))
        elsewhere = set(self._elsewhere())
        return sorted(tid for tid in self._proc.everything() if tid not in elsewhere)

    def _elsewhere(self) -> Iterator[int]:
        for group in list(self._by_group):
            if group.ctrl is not self._root:
                yield from self.of(group)


def _parse(word: str) -> int:
    """Parse a number as the kernel's kstrtoint does: decimal, octal with a leading 0, hexadecimal with 0x."""
    digits = word[1:] if word[:1] in {"+", "-"} else word
    prefix = digits[:2].lower()
    base = 16 if prefix == "0x" else 8 if digits[:1] == "0" and len(digits) > 1 else 10
    digits = digits[2:] if prefix == "0x" else digits
    try:
        # int() accepts more than the kernel: signs, underscores, blanks and other alphabets' digits.
        number = int(digits, base) if digits.isascii() and digits.isalnum() else None
    except ValueError:
        number = None
    if number is not None and word.startswith("-"):
        number = -number
    if number is None or not -_INT <= number < _INT:
        raise RefusedError(errno.EINVAL, f"Task list parsing error pid {word}")
    if number < 0:
        raise RefusedError(errno.EINVAL, f"Invalid pid {number}")
    return number
