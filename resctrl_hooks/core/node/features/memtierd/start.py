"""Start of a container's memtierd after a check of its requirements: under systemd, or with our supervisor."""

import time

from ...errors import HookError
from ...host.programs import ALL_FOLDERS, ProgramError, find_program
from ...log import WARNING
from .run_dir import OUTPUT, PID
from .template import TemplateError, fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...context import Context
    from ...feature import Container
    from ...host.cgroup import Leaf
    from ...settings import Settings
    from .run_dir import Opened

_NAP = 0.02
_PODMAN = "podman"


class MemtierdError(HookError):
    """memtierd is missing, cannot work on this node, or ended at once."""

    reason = "memtierd"


def configuration(name: str, cgroup: str, stats: str, settings: "Settings") -> str:
    """Return the configuration of a class with the container's cgroup and a file for statistics filled in.

    Raises:
        MemtierdError: the class does not exist.
        TemplateError: it cannot be filled in.
    """
    template = next((spec["memtierdconfig"] for spec in settings.classes if spec.get("name") == name), None)
    if template is None:
        raise MemtierdError(f"memory class {name!r} no longer exists", hint="add it again, or restart the container")
    try:
        return fill(str(template), cgroup, stats)
    except TemplateError as error:
        raise TemplateError(f"class {name}: {error.message}", hint=error.hint) from error


def program_of(settings: "Settings") -> str:
    """Return the path of memtierd.

    Raises:
        MemtierdError: it is missing, or not trustworthy.
    """
    try:
        return find_program(settings.memtierd["binary"], ALL_FOLDERS)
    except ProgramError as error:
        raise MemtierdError(
            error.message,
            hint=error.hint
            or "install memtierd, set memtierd.binary to its path, or remove memtierdconfig from the classes",
        ) from error


def check_needs(text: str, leaf: "Leaf", container: "Container", context: "Context") -> None:
    """Check that memtierd can run its configuration here; warn of parts without effect.

    Raises:
        MemtierdError: it cannot.
    """
    from .preflight import Needs, lacking

    fatal, idle = lacking(Needs(text), context.settings, leaf.folder)
    for words in idle:
        context.log(
            WARNING, f"memtierd of {container}: {words}", key=container.key, container=container.id, reason="idle"
        )
    if fatal:
        raise MemtierdError("; ".join(fatal), hint="run `resctrl-hook doctor` to check this node")


def start(
    command: "list[str]", leaf: "Leaf", container: "Container", opened: "Opened", context: "Context", *, systemd: bool
) -> None:
    """Start memtierd, record its pid, and verify that it keeps running.

    Raises:
        HookError: it did not start, or ended at once.
    """
    if systemd:
        _start_service(command, leaf, container, opened, context.settings)
    else:
        _start_process(command, container, opened, context)


def _start_service(
    command: "list[str]", leaf: "Leaf", container: "Container", opened: "Opened", settings: "Settings"
) -> None:
    from ...host.systemd import patience
    from . import service

    # A service that holds a Podman container is the container's own (Quadlet); a CRI's is the whole runtime's.
    bound = leaf.own_scope or container.runtime == _PODMAN
    memory_max: str = settings.memtierd["memoryMax"]
    seconds = patience(settings.deadline)
    service.start_service(container.id, leaf, command, memory_max, seconds, bound=bound)
    found = _watch(
        lambda: service.service_processes(settings.cgroup_path, container.id),
        lambda: service.last_lines(container.id, seconds),
        settings,
    )
    opened.write(PID, f"{found[0]}\n".encode())


def _start_process(command: "list[str]", container: "Container", opened: "Opened", context: "Context") -> None:
    from ...host.procfs import start_time
    from . import supervisor
    from .processes import cgroup_folder, living

    cgroup = cgroup_folder(context.settings.cgroup_path, container.id)
    began = start_time(context.proc, container.pid)
    supervisor.start(supervisor.Supervised(command, cgroup, context.proc, container.pid, began), opened)
    _watch(lambda: living(opened), lambda: opened.read(OUTPUT).decode("utf-8", "replace"), context.settings)


def _watch(running: "Callable[[], list[int]]", output: "Callable[[], str]", settings: "Settings") -> "list[int]":
    """Return memtierd's processes if it still runs after ``startSeconds``.

    Raises:
        MemtierdError: it has ended; its ``output`` has the cause.
    """
    until = time.monotonic() + float(settings.memtierd["startSeconds"])
    while True:
        found = running()
        if not found:
            from .ended import last_words

            words = last_words(output())
            raise MemtierdError(f"memtierd exited immediately; {words}", hint="fix the class's memtierdconfig")
        if time.monotonic() >= until:
            return found
        time.sleep(_NAP)
