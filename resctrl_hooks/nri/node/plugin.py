"""The plugin behind the service: cached settings, events passed to the core, results logged."""

from ...core.node.context import Context
from ...core.node.errors import HookError, SettingsError
from ...core.node.failure_policies import failure_policy
from ...core.node.fault_report import as_hook_error
from ...core.node.host.files import parse_json, stamp
from ...core.node.log import ERROR, NOTICE, WARNING, Log
from ...core.node.registry import features_in_use
from ...core.node.settings import Settings, compiled_path, load
from ...core.node.watch.priority import become_urgent
from . import events, ttrpc
from .event import CREATE_CONTAINER, ENDS, LATE_START, SYNCHRONIZE, Event, container_of, has_record, mask_of
from .requested import adjusts, specified_by, strict_features
from .worker import NOT_YET, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...core.node.host.notify import Notify
    from .status import Status
    from .worker import Reply

    Find = Callable[[str], tuple[Settings, str]]
    Compile = Callable[[str], dict[str, Any]]

_OURS = 0.7  # maximum part of the runtime's request timeout for an event's deadline
_PATIENCE = 0.85  # of the runtime's timeout: a child that has not answered by then is killed
_LEFT = {CREATE_CONTAINER: "container not changed", SYNCHRONIZE: "reconcile will adopt the containers"}
_USUALLY_LEFT = "reconcile will complete the rest"
_MOST_WITHOUT_PID = 1000  # containers whose StartContainer named no process; PostStartContainer follows at once
_TIMEOUT = 2.0  # seconds, containerd's default, where a runtime passes none


class NodePlugin:
    """Server of events with the active settings.

    Args:
        name: its registered name, and ``index`` its order among plugins, two digits.
        config: the configuration's path; ``find`` returns its settings.
        compile_: compiles a configuration that the runtime sends; the people half's also reads YAML.
    """

    def __init__(
        self,
        name: str,
        index: str,
        config: str,
        *,
        find: "Find" = load,
        compile_: "Compile | None" = None,
        notify: "Notify",
        status: "Status",
        stderr: bool,
    ) -> None:
        self.name = name
        self.index = index
        self._config = config
        self._paths = (config, compiled_path(config))
        self._find = find
        self._compile = compile_ or _json
        self._notify = notify
        self._status = status
        self._stderr = stderr
        self._sent: "Settings | None" = None
        self._settings = Settings()
        self._seen: object = None
        self._generation = 0
        self._creates = False
        self._context: "Context | None" = None
        self._timeout = _TIMEOUT
        self._runtime = self._version = self._nri = ""
        self._logged = ""
        self._without_pid: "set[str]" = set()
        self.refresh()

    def refresh(self) -> Settings:
        """Return the active settings, read again after a change, with their modules imported."""
        if self._sent is not None:
            return self._settings
        seen = [stamp(path) for path in self._paths]
        if seen != self._seen:
            self._seen = seen
            try:
                settings, problem = self._find(self._config)
            except SettingsError as error:
                self.log(ERROR, f"{error}; the previous configuration stays active", reason=error.reason)
                return self._settings
            self._use(settings)
            if problem:
                self.log(WARNING, problem, reason=SettingsError.reason)
        return self._settings

    def _use(self, settings: Settings) -> None:
        """Activate settings; processes that were forked before serve no more events."""
        self._settings = settings
        self._generation += 1
        features = features_in_use(settings)
        self._creates = adjusts(settings) or any(failure_policy(one.name, settings) == "fail" for one in features)
        if self._creates:
            from . import creation  # noqa: F401  # here, so that all processes share it

            specified_by(settings)  # imports the modules of specifications

    def generation(self) -> int:
        """Return how often the settings have changed: processes of an earlier generation serve by the old ones."""
        return self._generation

    def subscription(self) -> int:
        """Return the events that the settings need: CreateContainer only if it may refuse or adjust a container.

        It is asked while nothing happens, so the figures of the last events are written here.
        """
        self.refresh()
        self._status.write()
        return mask_of(name for name in events.HANDLERS if name != CREATE_CONTAINER or self._creates)

    def log(self, priority: int, message: str, **fields: "str | int") -> None:
        """Log a message without an event."""
        Log(self._settings.log, stderr=self._stderr)(priority, message, stage="nri", **fields)

    def configure(self, request: "dict[str, Any]") -> None:
        """Take the runtime's name, its patience, and a configuration, if it has one for us."""
        self._runtime = request.get("runtime_name", "")
        self._version = request.get("runtime_version", "")
        self._nri = request.get("NRI_version", "")
        self._timeout = request.get("request_timeout", 0) / 1000 or _TIMEOUT
        self._seen = self._sent = None  # data sent on an earlier connection is void
        text = request.get("config", "").strip()
        if not text:
            return
        try:
            self._sent = Settings(self._compile(text), "the runtime's configuration for this plugin")
            self._use(self._sent)
        except (HookError, ValueError) as error:
            self.log(
                ERROR, f"cannot use the runtime's configuration for this plugin: {error}; {self._config} stays active"
            )

    def serves(self, event: str, payload: bytes) -> bool:
        """Return whether the event, by its name as `serve` takes it, needs a process.

        One look at the records shows whether there is anything to end.
        PostStartContainer does only after a StartContainer without a pid, which containerd sends for containers that it
        found again after a crash.
        """
        settings = self.refresh()
        name = event.partition(":")[0]
        if name == CREATE_CONTAINER:
            return self._creates
        if name == LATE_START:
            if not self._without_pid:
                return False
            container = container_of(event, payload)
            waited = container in self._without_pid
            self._without_pid.discard(container)
            return waited
        if name in ENDS and not specified_by(settings):
            return has_record(event, payload, settings.state_dir)
        return name in events.HANDLERS

    def serve(self, event: str, payload: bytes, reply: "Reply") -> bool:
        """As `events.serve`, whose settings get the event's deadline: all patience is a part of it."""
        self._settings.deadline = min(self._settings.deadline, self._timeout * _OURS)
        context = self._prepared(refusable=event == CREATE_CONTAINER)
        return events.serve(event, payload, (self._runtime, self._nri), context, reply)

    def synchronize(self, parts: "list[bytes]", reply: "Reply") -> None:
        """As `events.synchronize`; reply as `serve` does."""
        self._adopt("Synchronize", lambda context: events.synchronize(parts, self._runtime, context), reply)

    def adopt(self, reply: "Reply") -> None:
        """As `events.adopt`, with priority: on a starved node a pass takes seconds otherwise."""
        become_urgent()
        self._adopt("adopting", events.adopt, reply)

    def _adopt(self, what: str, work: "Callable[[Context], bytes]", reply: "Reply") -> None:
        try:
            others = work(self._prepared(refusable=False))
        except Exception as error:  # noqa: BLE001  # the cause is worth a line, whatever it is
            self.log(ERROR, f"{what}: {as_hook_error(error)}; the reconcile timer will adopt the containers")
            reply(ttrpc.UNKNOWN, b"")
            return
        reply(ttrpc.OK, pack(b"", others))

    def _prepared(self, *, refusable: bool) -> Context:
        """Return the context, shared by all events of a process; a refusal has an effect only if ``refusable``."""
        context = self._context
        if context is None:
            context = self._context = Context(self._settings, Log(self._settings.log, stderr=self._stderr))
        context.failures, context.refusable = [], refusable
        return context

    def limit(self, timeout: float) -> float:
        """When the process of an event is killed to which the runtime gives so many seconds: while it still waits."""
        return min(timeout or self._timeout, self._timeout) * _PATIENCE

    def served(self, event: str, payload: bytes, seconds: float, code: "int | None") -> None:
        """Count an event; its code is 0 for success, and None for a failure of its process, which is logged."""
        name = event.partition(":")[0]
        self._status.served(name, seconds, failed=code not in (ttrpc.OK, NOT_YET))
        if code == NOT_YET:
            container = container_of(event, payload)
            if len(self._without_pid) >= _MOST_WITHOUT_PID:
                self._without_pid.clear()
            self._without_pid.add(container)
        if code is None:
            what = "container rejected" if self.refusal(event, payload) else _LEFT.get(name, _USUALLY_LEFT)
            text = f"{name}{self._of(event, payload)} was not served: the worker died or exceeded its time; {what}"
            self.log(ERROR, text, reason="fault")

    def _of(self, event: str, payload: bytes) -> str:
        """Names the pod and container of an event, where it has one that can be read."""
        try:
            return f" of {Event(event, payload, self._runtime, self._nri)}" if payload else ""
        except HookError:
            return ""

    def refusal(self, event: str, payload: bytes) -> str:
        """Return why a container is refused whose CreateContainer no process has answered; empty where it goes on.

        The general policy decides, and those of features for every container of its namespace: on a node without time
        left, pods of other namespaces still start.
        """
        if event != CREATE_CONTAINER:
            return ""
        refused = self._settings.failure_policy == "fail"
        try:
            namespace: str = Event(event, payload, self._runtime, self._nri).pod.get("namespace", "")
        except HookError:
            pass  # it names no container
        else:
            refused = refused or bool(strict_features(self._settings, namespace))
        return "the NRI plugin's worker died or exceeded its time" if refused else ""

    def updated(self, why: str) -> None:
        """Log that the runtime has not updated other containers as requested."""
        if why:
            self.log(WARNING, f"cannot send cpusets to the runtime: {why}; they stay set in the cgroups")

    def connected(self) -> None:
        """Record and log that the runtime has registered and configured this plugin."""
        self._logged = ""
        self._status.connected(self._runtime, self._version)
        self._notify(READY="1", STATUS=f"connected to {self._runtime} {self._version}")
        self.log(NOTICE, f"connected to {self._runtime} {self._version} as {self.index}-{self.name}")

    def dropped(self, why: str) -> None:
        """Record the end, or the failure, of a connection; log it once for each reason."""
        self._status.dropped(why)
        if why != self._logged:
            self._logged = why
            self._notify(STATUS=f"not connected: {why}")
            self.log(WARNING, f"not connected to a runtime: {why}", reason="dropped")


def _json(text: str) -> "dict[str, Any]":
    """Return settings as JSON, which is all that the node half can read."""
    try:
        found = parse_json(text.encode())
    except ValueError as error:
        raise SettingsError(
            f"not JSON ({error}); YAML requires the command `resctrl-hook nri`",
            hint="put it into the configuration file and run `resctrl-hook config apply`, or write it as JSON",
        ) from error
    if not isinstance(found, dict):
        raise SettingsError("not a JSON object")
    return found
