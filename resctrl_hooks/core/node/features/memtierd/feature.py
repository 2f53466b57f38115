"""One memtierd per container for classes with a configuration for it, started before the container's process runs.

systemd supervises it as a transient service where it runs the machine, otherwise a small process of this program does.
"""

from ...cgroup_settings.own import living_cgroup
from ...classes.memory import choice_or_default
from ...errors import DeadlineError, HookError
from ...feature import SKIP, Feature, Step
from ...log import WARNING
from .run_dir import CONFIG, PID, STATS, RunFolder, RunFolderError, run_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import TypeVar

    from ...container.workload import Workload
    from ...context import Context
    from ...feature import Container
    from ...records import MemberRecord, MemtierdNeeds
    from ...resctrl.locked_key import LockedKey
    from ...settings import Settings
    from .run_dir import Opened

    T = TypeVar("T")

NAME = "memtierd"
SYSTEMD, PROCESS, AUTO = "systemd", "process", "auto"


class Memtierd(Feature):
    """A memtierd for one container."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Start a memtierd if the container's class has a configuration for it.

        The memory feature refuses unknown and forbidden classes.

        Raises:
            RunFolderError: the pod's names are not valid folder names.
        """
        try:
            choice = choice_or_default(workload, context.settings)
        except HookError:
            return []
        if not choice.spec.get("memtierdconfig"):
            return [Step(NAME, SKIP, {}, f"{choice.why}: no memtierd")] if choice.name else []
        supervisor = supervisor_of(context.settings)
        names = [workload.namespace, workload.pod, workload.container]
        root = run_dir(context.settings)
        RunFolder(root, (names[0], names[1], names[2]), workload.id)
        # The record contains everything for stopping it, independent of later settings.
        needs: "MemtierdNeeds" = {
            "class": choice.name,
            "runDir": root,
            "names": names,
            "supervisor": supervisor,
            "cgroups": context.settings.cgroup_path,
        }
        how = "a transient systemd service" if supervisor == SYSTEMD else "a separate process"
        return [Step(NAME, "start", needs, f"memtierd as {how}: {choice.why}")]

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Check what memtierd does not check, write its run folder, start it, and verify that it keeps running.

        Raises:
            HookError: it did not start, or ended at once; nothing is left behind.
        """
        from .start import check_needs, configuration, program_of, start  # not to end one

        leaf = living_cgroup(container, context)
        folder = folder_of(step, container.id)
        needs: "MemtierdNeeds" = step.parameters
        text = configuration(needs["class"], leaf.folder, f"{folder.path}/{STATS}", context.settings)
        program = program_of(context.settings)
        check_needs(text, leaf, container, context)
        _end(step, container.id, context)  # leftovers of an earlier run with the same id
        opened = folder.make()
        try:
            opened.write(CONFIG, text.encode())
            command = [program, "-c", "", "-config", f"{folder.path}/{CONFIG}"]
            start(command, leaf, container, opened, context, systemd=_is_service(step))
        except DeadlineError:
            raise  # no time is left; its record has the data for stopping it
        except HookError:
            try:
                _end(step, container.id, context)
            except DeadlineError:
                raise
            except HookError as another:  # the first error matters more; `revert` tries this again
                context.log(WARNING, f"memtierd of {container}: {another}", key=container.key, container=container.id)
            raise
        finally:
            opened.close()

    def runs_programs(self, step: "Step", context: "Context") -> bool:
        """Return true: a memtierd is started, watched and ended."""
        return True

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether its memtierd runs under supervision, or systemd is about to restart it."""
        if running(step, container.id):
            return attended(step, container.id)
        if not _is_service(step):
            return False
        from ...host.systemd import patience
        from .service import service_waits

        return service_waits(container.id, patience(context.settings.deadline))

    def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
        """End this container's memtierd and remove its run folder; other containers' are named by other ids."""
        _end(step, member["id"], context)

    def lost(self, step: "Step", container: "Container", context: "Context") -> str:
        """Return why a started memtierd no longer holds; empty if none was started."""
        from . import ended

        if not _is_service(step):
            return _in_folder(step, container.id, ended.why_process_ended) or ""
        from ...host.systemd import patience
        from .service import last_lines

        started = _in_folder(step, container.id, lambda opened: opened.read(PID))
        return ended.last_words(last_lines(container.id, patience(context.settings.deadline))) if started else ""

    def orphans(self, context: "Context", known: "Collection[str]" = ()) -> "list[str]":
        """Return the run folders of unrecorded containers."""
        return [folder.path for folder in orphaned(context, known)]

    def repair(self, context: "Context", known: "Collection[str]") -> int:
        """Stop memtierds of unrecorded containers; return their number. Called by reconcile.

        Raises:
            MemtierdError: some did not stop; the others did.
        """
        settings = context.settings
        systemd = supervisor_of(settings) == SYSTEMD
        ended, problems = 0, []
        for folder in orphaned(context, known):
            container = folder.parts[-1]
            if context.ledger.key_of(container):
                continue  # stopping others takes time, in which a hook may have started this one
            try:
                ended += end(folder, container, settings.cgroup_path, settings, systemd=systemd)
            except HookError as error:
                problems.append(f"{container[:12]}: {error}")
        if problems:
            from .start import MemtierdError  # not to end one

            raise MemtierdError(
                f"{len(problems)} orphaned memtierd instances cannot be stopped: {'; '.join(problems[:5])}",
                hint="end them by hand; `ps -C memtierd` lists them",
            )
        return ended


def run_dir(settings: "Settings") -> str:
    """Return the parent folder of all run folders."""
    path: str = settings.memtierd["runDir"]
    return path.rstrip("/")


def supervisor_of(settings: "Settings") -> str:
    """Return the supervisor of memtierd here: ``systemd`` or ``process``."""
    configured: str = settings.memtierd["supervisor"]
    if configured != AUTO:
        return configured
    from ...host.systemd import available  # only where a container needs memtierd

    return SYSTEMD if available(settings.cgroup_path) else PROCESS


def _is_service(step: "Step") -> bool:
    needs: "MemtierdNeeds" = step.parameters
    return needs["supervisor"] == SYSTEMD


def folder_of(step: "Step", container: str) -> RunFolder:
    """Return the run folder of a container's memtierd, as a recorded step names it."""
    needs: "MemtierdNeeds" = step.parameters
    namespace, pod, name = needs["names"]
    return RunFolder(needs["runDir"], (namespace, pod, name), container)


def _end(step: "Step", container: str, context: "Context") -> None:
    cgroups: str = step.parameters["cgroups"]
    end(folder_of(step, container), container, cgroups, context.settings, systemd=_is_service(step))


def end(folder: RunFolder, container: str, cgroups: str, settings: "Settings", *, systemd: bool) -> bool:
    """Stop a container's memtierd, then remove its run folder; return whether it existed.

    The run folder is created first and removed last, so without one nothing was started.

    Raises:
        HookError: it survives, systemd does not answer, or the folder cannot be removed.
    """
    opened = folder.open()
    if opened is None:
        return False
    from . import processes  # only for a memtierd to stop

    try:
        processes.end(opened, processes.cgroup_folder(cgroups, container))
        if systemd:
            from ...host.systemd import patience
            from .service import stop_service

            stop_service(container, patience(settings.deadline))
    finally:
        opened.close()
    return folder.remove()


def running(step: "Step", container: str) -> "list[int]":
    """Return the processes of a container's memtierd, as a recorded step names it; none if it doesn't run."""
    if _is_service(step):
        from .service import service_processes

        return service_processes(step.parameters["cgroups"], container)
    from .processes import memtierd_of

    return _in_folder(step, container, memtierd_of) or []


def attended(step: "Step", container: str) -> bool:
    """Return whether a container's running memtierd has a supervisor: systemd, or our process."""
    from . import processes

    return _is_service(step) or bool(_in_folder(step, container, processes.attended))


def _in_folder(step: "Step", container: str, ask: "Callable[[Opened], T]") -> "T | None":
    """Return a query's result on a container's run folder; None without a folder."""
    try:
        opened = folder_of(step, container).open()
    except RunFolderError:
        return None
    if opened is None:
        return None
    try:
        return ask(opened)
    finally:
        opened.close()


def orphaned(context: "Context", known: "Collection[str]" = ()) -> "list[RunFolder]":
    """Yield run folders of unrecorded containers: a record is written before its folder, and removed after it."""
    found = run_folders(run_dir(context.settings))
    return [folder for folder in found if folder.parts[-1] not in known and not context.ledger.key_of(folder.parts[-1])]


FEATURE = Memtierd()
