"""A memtierd of the container's own, for classes that have a configuration for one: started before its process runs.

systemd supervises it as a transient service where it runs the machine; elsewhere a small process of ours does.
"""

import time

from .cgroup import leaf_of
from .errors import DeadlineError, HookError
from .log import WARNING
from .memory_class import choice_of, policy_of
from .programs import ALL_FOLDERS, ProgramError, find_program
from .run_folder import CONFIG, OUTPUT, PID, STATS, RunFolder, RunFolderError, run_folders
from .steps import SKIP, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .cgroup import Leaf
    from .held import HeldKey
    from .ledger import Record
    from .run_folder import Opened
    from .settings import Settings
    from .steps import Node
    from .workload import Workload

NAME = "memtierd"
RUN_DIR = "/run/resctrl-hooks/memtierd"
SYSTEMD, PROCESS, AUTO = "systemd", "process", "auto"
_START_SECONDS = 0.2  # how long memtierd must live to count as started
_MEMORY_MAX = "512M"
_NAP = 0.02
_SHOWN_LINES = 5
_PODMAN = "podman"


class MemtierdError(HookError):
    """memtierd is missing, can't do its work on this node, or ended at once."""

    reason = "memtierd"


def failure_policy(settings: "Settings") -> str:
    """The memtierd section's own policy, else memory's, else ``fail``."""
    return policy_of(settings, "memtierd", "memory")


def plan(workload: "Workload", node: "Node") -> "list[Step]":
    """Starts a memtierd if the container's class has a configuration for it.

    A class that is unknown or not allowed is the memory feature's to refuse.

    Raises:
        RunFolderError: the pod's names can't be folders.
    """
    if workload.sandbox:
        return []
    try:
        choice = choice_of(workload, node.settings)
    except HookError:
        return []
    if not choice.spec.get("memtierdconfig"):
        return [Step(NAME, SKIP, {}, f"{choice.why}: without a memtierd")] if choice.name else []
    supervisor = supervisor_of(node.settings)
    names = [workload.namespace, workload.pod, workload.container]
    root = run_dir(node.settings)
    RunFolder(root, (names[0], names[1], names[2]), workload.id)
    # With all that is needed to end it again, whatever the settings say then.
    needs = {"class": choice.name, "runDir": root, "names": names, "supervisor": supervisor}
    needs["cgroups"] = node.settings.cgroup_path
    how = "a transient service of systemd" if supervisor == SYSTEMD else "a process of its own"
    return [Step(NAME, "start", needs, f"memtierd as {how}: {choice.why}")]


def run_dir(settings: "Settings") -> str:
    """The folder above all run folders."""
    path: str = settings.memtierd.get("runDir", RUN_DIR)
    return path.rstrip("/")


def supervisor_of(settings: "Settings") -> str:
    """Who supervises memtierd here: ``systemd`` or ``process``."""
    wanted: str = settings.memtierd.get("supervisor", AUTO)
    if wanted != AUTO:
        return wanted
    from .units import available  # only where a memtierd is wanted

    return SYSTEMD if available(settings) else PROCESS


def do(step: "Step", workload: "Workload", held: "HeldKey", node: "Node") -> None:
    """Checks what memtierd doesn't, writes its run folder, starts it, and looks whether it stays.

    Raises:
        HookError: it can't be started or ended at once; nothing of it is left.
    """
    from .template import TemplateError, fill

    settings = node.settings
    leaf = leaf_of(node, workload.pid, workload.id, workload.cgroup)
    if leaf is None:
        raise MemtierdError(f"process {workload.pid} has ended, so there is nothing for memtierd to do")
    template = _template(step.needs["class"], settings)
    folder = folder_of(step, workload.id)
    try:
        text = fill(template, leaf.folder, f"{folder.path}/{STATS}")
    except TemplateError as error:
        raise TemplateError(f"class {step.needs['class']}: {error.message}", hint=error.hint) from error
    program = _program(settings)
    _check_needs(text, leaf, workload, node)
    _end(step, workload.id, node)  # what an earlier run under this very id may have left
    opened = folder.make()
    try:
        opened.write(CONFIG, text.encode())
        command = [program, "-c", "", "-config", f"{folder.path}/{CONFIG}"]
        if step.needs["supervisor"] == SYSTEMD:
            _start_service(command, leaf, workload, opened, settings)
        else:
            _start_process(command, workload, opened, node)
    except DeadlineError:
        raise  # no time is left; its record says what to end
    except HookError:
        try:
            _end(step, workload.id, node)
        except DeadlineError:
            raise
        except HookError as another:  # what went wrong first says more; undo tries this again
            node.log(WARNING, f"memtierd of {workload}: {another}", key=workload.key, container=workload.id)
        raise
    finally:
        opened.close()


def _template(name: str, settings: "Settings") -> str:
    for spec in settings.classes:
        if spec.get("name") == name:
            return str(spec["memtierdconfig"])
    raise MemtierdError(f"there is no memory class {name!r} any more")


def folder_of(step: "Step", container: str) -> RunFolder:
    """The run folder of a container's memtierd, as a recorded step names it."""
    namespace, pod, name = step.needs["names"]
    return RunFolder(step.needs["runDir"], (namespace, pod, name), container)


def _program(settings: "Settings") -> str:
    try:
        return find_program(settings.memtierd.get("binary", "memtierd"), ALL_FOLDERS)
    except ProgramError as error:
        raise MemtierdError(
            error.message,
            hint=error.hint or "install memtierd, or name it in memtierd.binary; no class needs one otherwise",
        ) from error


def _check_needs(text: str, leaf: "Leaf", workload: "Workload", node: "Node") -> None:
    from .memtierd_needs import Needs, lacking

    found = lacking(Needs(text), node.settings, leaf.folder)
    for words in found.idle:
        node.log(WARNING, f"memtierd of {workload}: {words}", key=workload.key, container=workload.id, reason="idle")
    if found.fatal:
        raise MemtierdError("; ".join(found.fatal), hint="`resctrl-hook doctor` says what this node can do")


def _start_service(
    command: "list[str]", leaf: "Leaf", workload: "Workload", opened: "Opened", settings: "Settings"
) -> None:
    from . import units

    # A service that holds a Podman container is that container's own (Quadlet); a CRI's is the whole runtime's.
    bound = leaf.own_scope or workload.runtime == _PODMAN
    memory_max: str = settings.memtierd.get("memoryMax", _MEMORY_MAX)
    seconds = units.patience(settings)
    units.start_service(workload.id, leaf, command, memory_max, seconds, bound=bound)
    until = time.monotonic() + _start_seconds(settings)
    while True:
        found = units.service_processes(settings.cgroup_path, workload.id)
        if not found:
            raise _ended(units.last_lines(workload.id, seconds))
        if time.monotonic() >= until:
            break
        time.sleep(_NAP)
    opened.write(PID, f"{found[0]}\n".encode())


def _start_process(command: "list[str]", workload: "Workload", opened: "Opened", node: "Node") -> None:
    from . import keeper
    from .process import start_time

    cgroup = keeper.cgroup_folder(node.settings.cgroup_path, workload.id)
    began = start_time(node.proc, workload.pid)
    keeper.start(keeper.Kept(command, cgroup, node.proc, workload.pid, began), opened)
    until = time.monotonic() + _start_seconds(node.settings)
    while time.monotonic() < until:
        if not keeper.living(opened):
            lines = opened.read(OUTPUT).decode("utf-8", "replace").splitlines()
            raise _ended("\n".join(lines[-_SHOWN_LINES:]))
        time.sleep(_NAP)


def _start_seconds(settings: "Settings") -> float:
    return float(settings.memtierd.get("startSeconds", _START_SECONDS))


def _ended(output: str) -> MemtierdError:
    said = " / ".join(line for line in output.splitlines() if line)
    return MemtierdError(
        f"memtierd ended at once; its last lines: {said or '(none)'}", hint="mend the class's memtierdconfig"
    )


def undo(step: "Step", member: "Record", held: "HeldKey", node: "Node") -> None:
    """Ends this container's memtierd and removes its run folder; other containers' are named by other ids."""
    _end(step, member["id"], node)


def _end(step: "Step", container: str, node: "Node") -> None:
    systemd = step.needs["supervisor"] == SYSTEMD
    end(folder_of(step, container), container, step.needs["cgroups"], node.settings, systemd=systemd)


def end(folder: RunFolder, container: str, cgroups: str, settings: "Settings", *, systemd: bool) -> bool:
    """Ends a container's memtierd, then removes its run folder; says whether there was one.

    Without a run folder nothing was started: it is made first and removed last.

    Raises:
        HookError: it survives, systemd doesn't answer, or the folder can't be removed.
    """
    opened = folder.open()
    if opened is None:
        return False
    from . import keeper  # only where something ends

    try:
        keeper.end(opened, keeper.cgroup_folder(cgroups, container))
        if systemd:
            from .units import patience, stop_service

            stop_service(container, patience(settings))
    finally:
        opened.close()
    return folder.remove()


def running(step: "Step", container: str) -> "list[int]":
    """The processes of a container's memtierd, as a recorded step names it; none if it doesn't run."""
    if step.needs["supervisor"] == SYSTEMD:
        from .units import service_processes

        return service_processes(step.needs["cgroups"], container)
    from . import keeper

    try:
        opened = folder_of(step, container).open()
    except RunFolderError:
        return []
    if opened is None:
        return []
    try:
        return keeper.memtierd_of(opened)
    finally:
        opened.close()


def strays(node: "Node", known: "Collection[str]" = ()) -> "list[RunFolder]":
    """Run folders of containers that nobody records: a hook's record comes before its folder, and goes after it."""
    found = run_folders(run_dir(node.settings))
    return [folder for folder in found if folder.parts[-1] not in known and not node.ledger.key_of(folder.parts[-1])]


def mend(node: "Node", known: "Collection[str]") -> int:
    """Ends memtierds of containers that nobody records, and returns how many there were; reconcile calls it."""
    systemd = supervisor_of(node.settings) == SYSTEMD
    settings = node.settings
    found = strays(node, known)
    return sum(end(folder, folder.parts[-1], settings.cgroup_path, settings, systemd=systemd) for folder in found)
