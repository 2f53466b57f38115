"""A memtierd of the container's own, for classes that have a configuration for one: started before its process runs.

systemd supervises it as a transient service where it runs the machine; elsewhere a small process of ours does.
"""

from ...cgroup_settings.own import living_cgroup
from ...classes.memory import choice_of
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

        A class that is unknown or not allowed is the memory feature's to refuse.

        Raises:
            RunFolderError: the pod's names can't be folders.
        """
        try:
            choice = choice_of(workload, context.settings)
        except HookError:
            return []
        if not choice.spec.get("memtierdconfig"):
            return [Step(NAME, SKIP, {}, f"{choice.why}: without a memtierd")] if choice.name else []
        supervisor = supervisor_of(context.settings)
        names = [workload.namespace, workload.pod, workload.container]
        root = run_dir(context.settings)
        RunFolder(root, (names[0], names[1], names[2]), workload.id)
        # With all that is needed to end it again, whatever the settings say then.
        needs: "MemtierdNeeds" = {
            "class": choice.name,
            "runDir": root,
            "names": names,
            "supervisor": supervisor,
            "cgroups": context.settings.cgroup_path,
        }
        how = "a transient service of systemd" if supervisor == SYSTEMD else "a process of its own"
        return [Step(NAME, "start", needs, f"memtierd as {how}: {choice.why}")]

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Check what memtierd doesn't, write its run folder, start it, and look whether it stays.

        Raises:
            HookError: it can't be started or ended at once; nothing of it is left.
        """
        from .start import check_needs, configuration, program_of, start  # not to end one

        leaf = living_cgroup(container, context)
        folder = folder_of(step, container.id)
        needs: "MemtierdNeeds" = step.parameters
        text = configuration(needs["class"], leaf.folder, f"{folder.path}/{STATS}", context.settings)
        program = program_of(context.settings)
        check_needs(text, leaf, container, context)
        _end(step, container.id, context)  # what an earlier run under this very id may have left
        opened = folder.make()
        try:
            opened.write(CONFIG, text.encode())
            command = [program, "-c", "", "-config", f"{folder.path}/{CONFIG}"]
            start(command, leaf, container, opened, context, systemd=needs["supervisor"] == SYSTEMD)
        except DeadlineError:
            raise  # no time is left; its record says what to end
        except HookError:
            try:
                _end(step, container.id, context)
            except DeadlineError:
                raise
            except HookError as another:  # what went wrong first says more; `revert` tries this again
                context.log(WARNING, f"memtierd of {container}: {another}", key=container.key, container=container.id)
            raise
        finally:
            opened.close()

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether its memtierd runs and is attended to, or systemd is about to start it again."""
        if running(step, container.id):
            return attended(step, container.id)
        needs: "MemtierdNeeds" = step.parameters
        if needs["supervisor"] != SYSTEMD:
            return False
        from ...host.systemd import patience
        from .service import service_waits

        return service_waits(container.id, patience(context.settings.deadline))

    def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
        """End this container's memtierd and remove its run folder; other containers' are named by other ids."""
        _end(step, member["id"], context)

    def lost(self, step: "Step", container: "Container", context: "Context") -> str:
        """Return why a container's memtierd, which was started, holds no more; empty where none was."""
        from . import ended

        needs: "MemtierdNeeds" = step.parameters
        if needs["supervisor"] != SYSTEMD:
            return _in_folder(step, container.id, ended.why_process_ended) or ""
        from ...host.systemd import patience
        from .service import last_lines

        started = _in_folder(step, container.id, lambda opened: opened.read(PID))
        return ended.last_words(last_lines(container.id, patience(context.settings.deadline))) if started else ""

    def orphans(self, context: "Context", known: "Collection[str]" = ()) -> "list[str]":
        """Return the run folders of containers that nobody records."""
        return [folder.path for folder in orphaned(context, known)]

    def repair(self, context: "Context", known: "Collection[str]") -> int:
        """End memtierds of containers that nobody records, and return how many there were; reconcile calls it.

        Raises:
            MemtierdError: some could not be ended; the others are.
        """
        settings = context.settings
        systemd = supervisor_of(settings) == SYSTEMD
        ended, problems = 0, []
        for folder in orphaned(context, known):
            container = folder.parts[-1]
            if context.ledger.key_of(container):
                continue  # ending others takes a while, in which a hook may have come for this one
            try:
                ended += end(folder, container, settings.cgroup_path, settings, systemd=systemd)
            except HookError as error:
                problems.append(f"{container[:12]}: {error}")
        if problems:
            from .start import MemtierdError  # not to end one

            raise MemtierdError(f"{len(problems)} memtierds of no container can't be ended: {'; '.join(problems[:5])}")
        return ended


def run_dir(settings: "Settings") -> str:
    """Return the folder above all run folders."""
    path: str = settings.memtierd["runDir"]
    return path.rstrip("/")


def supervisor_of(settings: "Settings") -> str:
    """Who supervises memtierd here: ``systemd`` or ``process``."""
    wanted: str = settings.memtierd["supervisor"]
    if wanted != AUTO:
        return wanted
    from ...host.systemd import available  # only where a memtierd is wanted

    return SYSTEMD if available(settings.cgroup_path) else PROCESS


def folder_of(step: "Step", container: str) -> RunFolder:
    """Return the run folder of a container's memtierd, as a recorded step names it."""
    needs: "MemtierdNeeds" = step.parameters
    namespace, pod, name = needs["names"]
    return RunFolder(needs["runDir"], (namespace, pod, name), container)


def _end(step: "Step", container: str, context: "Context") -> None:
    needs: "MemtierdNeeds" = step.parameters
    systemd = needs["supervisor"] == SYSTEMD
    end(folder_of(step, container), container, needs["cgroups"], context.settings, systemd=systemd)


def end(folder: RunFolder, container: str, cgroups: str, settings: "Settings", *, systemd: bool) -> bool:
    """End a container's memtierd, then remove its run folder; say whether there was one.

    Without a run folder nothing was started: it is made first and removed last.

    Raises:
        HookError: it survives, systemd doesn't answer, or the folder can't be removed.
    """
    opened = folder.open()
    if opened is None:
        return False
    from . import processes as memtierd_processes  # only where something ends

    try:
        memtierd_processes.end(opened, memtierd_processes.cgroup_folder(cgroups, container))
        if systemd:
            from ...host.systemd import patience
            from .service import stop_service

            stop_service(container, patience(settings.deadline))
    finally:
        opened.close()
    return folder.remove()


def running(step: "Step", container: str) -> "list[int]":
    """Return the processes of a container's memtierd, as a recorded step names it; none if it doesn't run."""
    needs: "MemtierdNeeds" = step.parameters
    if needs["supervisor"] == SYSTEMD:
        from .service import service_processes

        return service_processes(needs["cgroups"], container)
    from .processes import memtierd_of

    return _in_folder(step, container, memtierd_of) or []


def attended(step: "Step", container: str) -> bool:
    """Return whether somebody attends to a container's memtierd that runs: systemd, or the keeper of ours."""
    needs: "MemtierdNeeds" = step.parameters
    if needs["supervisor"] == SYSTEMD:
        return True
    from . import processes as memtierd_processes

    return bool(_in_folder(step, container, memtierd_processes.attended))


def _in_folder(step: "Step", container: str, ask: "Callable[[Opened], T]") -> "T | None":
    """What is asked of a container's run folder; None if there is none."""
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
    """Run folders of containers that nobody records: a hook's record comes before its folder, and goes after it."""
    found = run_folders(run_dir(context.settings))
    return [folder for folder in found if folder.parts[-1] not in known and not context.ledger.key_of(folder.parts[-1])]


FEATURE = Memtierd()
