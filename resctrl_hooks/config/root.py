"""The whole configuration file: general settings and sections."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from resctrl_hooks.node.names import default_key_validator
from resctrl_hooks.node.settings import DEFAULTS, LONGEST_DEADLINE

from .blockio import Blockio
from .classes import allowed_in_vain
from .log import LogSection
from .memory import Memory, MemoryClass
from .memtierd import Memtierd
from .monitoring import Monitoring
from .nri import Nri
from .placement import Placement
from .rdt import Rdt
from .scheduling import Scheduling
from .section import (
    PATHS_SCHEMAS,
    AbsolutePath,
    FailurePolicy,
    NamespacePattern,
    Paths,
    Remark,
    Section,
    unique_names,
    wrong,
)

_TELEMETRY = "this configures the exporter of the resctrl-mon plugin and is ignored here; see `resctrl-hook metrics`"
_LIMITS = (
    "with classes, pods that set memory.high or memory.swap.max by annotation are refused, unless memory.allowLimits "
    'lets their namespace: `memory: {allowLimits: {"*": ["*"]}}` is what the memtierd plugin does'
)
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108  # ProtectHome= and PrivateTmp= of the unit

_LONGEST_PREFIX = 255 - 64  # a group's name has at most 255 bytes, a container id 64


def _prefix(prefix: str) -> str:
    if prefix and not default_key_validator(prefix):
        raise wrong(f"no group's name can begin with {prefix!r}", "use letters, digits and _+.-, and no dot in front")
    if len(prefix) > _LONGEST_PREFIX:
        raise wrong(f"{prefix[:20]!r}… is too long for a prefix", f"{_LONGEST_PREFIX} characters leave room for an id")
    return prefix


def _named_roots(value: Any) -> Any:
    return {"all": value} if isinstance(value, (str, list)) and value else value or {}


RuntimeRoots = Annotated[
    dict[str, Paths],
    BeforeValidator(_named_roots),
    WithJsonSchema({"anyOf": [*PATHS_SCHEMAS, {"type": "object", "additionalProperties": {"anyOf": PATHS_SCHEMAS}}]}),
]


class Configuration(Section):
    """The configuration of resctrl-hooks. Everything has a default: an empty file is valid."""

    resctrl_path: AbsolutePath = DEFAULTS["resctrlPath"]
    """Where resctrl is mounted."""

    namespaces: list[NamespacePattern] = []
    """Only pods of these Kubernetes namespaces are monitored. Empty means all. `team-*` fits all that begin so."""

    label_selector: dict[str, str] = {}
    """Only pods with all of these labels are monitored. Empty means all. Only CRI-O lets a hook see labels."""

    group_prefix: Annotated[str, AfterValidator(_prefix)] = DEFAULTS["groupPrefix"]
    """Stands before the pod's UID in a group's name. Kepler expects none."""

    failure_policy: FailurePolicy = DEFAULTS["failurePolicy"]
    """What a failure means for the container: `ignore` logs it and lets the container go on, `fail` refuses it
    (exit code 79). Sections can have their own."""

    deadline_seconds: Annotated[float, Field(gt=0, le=LONGEST_DEADLINE)] = DEFAULTS["deadlineSeconds"]
    """How long a hook may take, in seconds; then it gives up and leaves the rest to reconcile. Time in which it waits
    for a processor doesn't count."""

    state_dir: AbsolutePath = DEFAULTS["stateDir"]
    """Where the hooks keep their records: a root-owned folder on tmpfs, since they describe one boot."""

    cgroup_path: AbsolutePath = DEFAULTS["cgroupPath"]
    """Where cgroups are mounted."""

    proc_path: AbsolutePath = DEFAULTS["procPath"]
    """Where procfs is mounted."""

    sys_path: AbsolutePath = DEFAULTS["sysPath"]
    """Where sysfs is mounted."""

    runtime_roots: RuntimeRoots = {}
    """Where runtimes keep the state of their containers, for reconcile: a path, a list of paths, or either by a name of
    your choice. Empty means the usual folders of runc, crun and containerd."""

    monitoring: Monitoring = Monitoring()
    classes: Annotated[list[MemoryClass], AfterValidator(unique_names)] = []
    """Classes of workloads by how their memory is managed, as the memtierd NRI plugin has them."""

    memory: Memory = Memory()
    memtierd: Memtierd = Memtierd()
    rdt: Rdt = Rdt()
    placement: Placement = Placement()
    blockio: Blockio = Blockio()
    scheduling: Scheduling = Scheduling()
    nri: Nri = Nri()
    log: LogSection = LogSection()

    telemetry: Any = Field(default=None, exclude=True)
    """Accepted and ignored: the exporter of the resctrl-mon NRI plugin, whose file may be used here."""

    def remarks(self) -> list[Remark]:
        """Return remarks on ignored, unreachable and ineffective settings, and on classes for pods with limits."""
        found = self._on_memory_classes()
        if self.telemetry is not None:
            found.append(Remark(("telemetry",), _TELEMETRY))
        hidden = next((folder for folder in _HIDDEN if f"{self.state_dir}/".startswith(f"{folder}/")), "")
        if hidden:
            found.append(Remark(("stateDir",), f"reconcile's systemd unit does not see what is below {hidden}"))
        return found

    def _on_memory_classes(self) -> list[Remark]:
        if not self.classes:
            return []
        names = [each.name for each in self.classes]
        found = []
        for section, allow in (("memory", self.memory.allow), ("memtierd", self.memtierd.allow)):
            remarks = allowed_in_vain(allow, names, "no class is called {pattern}; the classes are {known}")
            found += [Remark((section, *remark.at), remark.text) for remark in remarks]
        policy = self.memory.failure_policy or self.memtierd.failure_policy or "fail"
        if policy == "fail" and "allow_limits" not in self.memory.model_fields_set:
            found.append(Remark(("classes",), _LIMITS))
        return found
