"""The ``nri`` command: the plugin's own options and those of the plugins that it follows."""

import gc
import posix

from ...core.node.errors import HookError
from ...core.node.host.instance import RunningError, only_instance
from ...core.node.host.notify import Notify
from ...core.node.ledger import Ledger
from ...core.node.log import ERROR, Log
from ...core.node.settings import load
from ...core.node.watch.enabled import is_enabled, why_useless
from ...core.node.watch.priority import become_urgent
from .plugin import NodePlugin
from .resident import Resident
from .status import Status
from .workers import Companion, Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.settings import Settings
    from .plugin import Compile, Find

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
DEFAULT_NAME = "resctrl-hooks"
DEFAULT_INDEX = "97"  # after the plugins of nri-plugins (90; memory-policy 92 or 95), so that their values are seen
LOCK = "nri.lock"
_USAGE = "usage: nri [--socket PATH] [-name NAME] [-idx NN] [-config FILE] [-v|-vv] [-cgroups-dir DIR] [-run-dir DIR]\n"
_WRONG, _WRONG_USE = 1, 2
# With one dash or two, as Go's flag package takes them; those of memtierd's plugin that settings replace.
_VALUES = ("socket", "name", "idx", "config", "cgroups-dir", "run-dir")
_FLAGS = ("v", "vv")


def nri_command(config: str, arguments: "list[str]", find: "Find" = load, compile_: "Compile | None" = None) -> int:
    """Serve NRI until SIGTERM; 0 then, 1 where another instance runs, 2 for wrong use.

    ``find`` gives the settings for a configuration's path, ``compile_`` for one that the runtime sends.
    """
    given = parse(arguments)
    if given is None:
        posix.write(2, _USAGE.encode())
        return _WRONG_USE
    config = given.get("config", config)
    path = given.get("socket", DEFAULT_SOCKET)
    stderr = b"INVOCATION_ID" not in posix.environ  # under systemd the journal has it already
    try:
        settings, _ = find(config)
        node_state = settings.state_dir
    except HookError as error:
        Log(stderr=stderr)(ERROR, f"nri: {error}", stage="nri", reason=error.reason)
        return _WRONG_USE
    try:
        Ledger(node_state).prepare()
        lock = only_instance(f"{node_state}/{LOCK}")
    except RunningError as error:
        Log(settings.log)(ERROR, f"nri: {error}", stage="nri")
        return _WRONG
    except (OSError, HookError) as error:
        Log(settings.log)(ERROR, f"nri: {node_state}/{LOCK}: {getattr(error, 'strerror', None) or error}", stage="nri")
        return _WRONG
    notify, status = Notify(), Status(node_state, path, Log(settings.log))
    plugin = NodePlugin(
        given.get("name", DEFAULT_NAME),
        given.get("idx", DEFAULT_INDEX),
        config,
        find=_overriding(find, given),
        compile_=compile_,
        notify=notify,
        status=status,
        stderr=stderr,
    )
    resident = Resident(path, plugin, notify)

    def forget() -> None:
        resident.close()
        posix.close(lock)

    gc.collect()
    gc.freeze()  # the processes share everything that is loaded now
    workers = Workers(forget, plugin.serve)
    workers.keep(_exec_watcher(config, find, plugin, stderr=stderr))
    become_urgent()  # it only passes messages on, and its children start without this
    resident.run(workers)
    workers.end()
    return 0


def _exec_watcher(config: str, find: "Find", plugin: NodePlugin, *, stderr: bool) -> Companion:
    """Return the exec watcher as a child process, which shares this one's memory."""
    parent = posix.getpid()

    def run() -> None:
        from ...core.node.watch.command import watch  # not in the other processes, which do not need it

        try:
            watch(config, lambda watcher: posix.getppid() != parent or not watcher.is_on, find, stderr=stderr)
        except RunningError:
            pass  # its own unit serves this node already
        except HookError as error:
            plugin.log(ERROR, f"exec watcher not started: {error}; reconcile moves the processes", reason=error.reason)

    def is_useful() -> bool:
        settings = plugin.refresh()
        return is_enabled(settings) and not why_useless(settings)

    return Companion(run, is_useful)


def parse(arguments: "list[str]") -> "dict[str, str] | None":
    """Return the options given, by name without dashes; None for wrong use."""
    given: "dict[str, str]" = {}
    rest = list(arguments)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        name = word[2:] if word.startswith("--") else word[1:]
        if word[:1] != "-" or (name in _FLAGS and equals):
            return None
        if name in _FLAGS:
            given[name] = "1"
        elif name in _VALUES and (equals or rest):
            given[name] = value if equals else rest.pop(0)
        else:
            return None
    index = given.get("idx", DEFAULT_INDEX)
    return given if len(index) == 2 and index.isascii() and index.isdigit() else None  # noqa: PLR2004  # two digits


def _overriding(find: "Find", given: "dict[str, str]") -> "Find":
    """Return settings with the options' values: the place of cgroups, and the log level."""

    def found(config: str) -> "tuple[Settings, str]":
        settings, problem = find(config)
        if given.get("cgroups-dir"):
            settings.cgroup_path = given["cgroups-dir"].rstrip("/")
        if given.get("run-dir"):
            settings.memtierd["runDir"] = given["run-dir"]
        if given.get("v") or given.get("vv"):
            settings.log["level"] = "debug"
        return settings, problem

    return found
