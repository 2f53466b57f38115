"""The whole configuration file: general settings and sections."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from resctrl_hooks.core.node.classes.choice import NO_CLASS
from resctrl_hooks.core.node.classes.memory import UNIFIED
from resctrl_hooks.core.node.names import default_key_validator
from resctrl_hooks.core.node.settings import DEFAULTS, LONGEST_DEADLINE
from resctrl_hooks.core.parts import clause

from .added_keys import with_added_keys
from .blockio import Blockio
from .classes import allowed_in_vain
from .log import LogSection
from .memory import Memory, MemoryClass
from .memtierd import Memtierd
from .monitoring import Monitoring
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

_TELEMETRY = f"ignored: this configures the exporter of the resctrl-mon plugin{clause('telemetry')}"
_MPOLSET = "ignored: the runtime sets memory policies (NRI 0.12), without a wrapper"
_NO_FILE = "ignored: the supported files are {}"
_LIMITS = (
    "if classes are configured, pods that set memory.high or memory.swap.max by annotation are rejected, except in "
    'namespaces of memory.allowLimits; `memory: {allowLimits: {"*": ["*"]}}` matches the memtierd plugin'
)
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108  # ProtectHome= and PrivateTmp= of the unit

_LONGEST_PREFIX = 255 - 64  # a group's name has at most 255 bytes, a container id 64


def _prefix(prefix: str) -> str:
    if prefix and not default_key_validator(prefix):
        raise wrong(f"{prefix!r} is not a valid prefix", "use letters, digits and _+.-, not starting with a dot")
    if len(prefix) > _LONGEST_PREFIX:
        raise wrong(f"{prefix[:20]!r}… is too long", f"use at most {_LONGEST_PREFIX} characters")
    return prefix


def _named_roots(value: Any) -> Any:
    return {"all": value} if isinstance(value, (str, list)) and value else value or {}


RuntimeRoots = Annotated[
    dict[str, Paths],
    BeforeValidator(_named_roots),
    WithJsonSchema({"anyOf": [*PATHS_SCHEMAS, {"type": "object", "additionalProperties": {"anyOf": PATHS_SCHEMAS}}]}),
]


@with_added_keys()
class Configuration(Section):
    """The configuration of resctrl-hooks. Everything has a default: an empty file is valid."""

    resctrl_path: AbsolutePath = DEFAULTS["resctrlPath"]
    """Mount point of resctrl."""

    namespaces: list[NamespacePattern] = []
    """Namespaces of the monitored pods, such as `team-*`. Empty means all."""

    label_selector: dict[str, str] = {}
    """Labels of the monitored pods. Empty means all. Hooks see labels only with CRI-O."""

    group_prefix: Annotated[str, AfterValidator(_prefix)] = DEFAULTS["groupPrefix"]
    """Prefix of group names. Kepler expects an empty prefix. After a change, reconcile renames the groups."""

    failure_policy: FailurePolicy = DEFAULTS["failurePolicy"]
    """After a failure, `ignore` starts the container, `fail` rejects the container (exit code 79). Sections can
    override this key."""

    deadline_seconds: Annotated[float, Field(gt=0, le=LONGEST_DEADLINE)] = DEFAULTS["deadlineSeconds"]
    """Time limit of a hook in seconds; waits for a CPU do not count. Then the hook leaves the rest to reconcile."""

    state_dir: AbsolutePath = DEFAULTS["stateDir"]
    """Directory of the records: root-owned, on tmpfs. After a change, the records stay in the former
    directory until the next boot, and the new path is a link to the former directory."""

    cgroup_path: AbsolutePath = DEFAULTS["cgroupPath"]
    """Mount point of cgroups."""

    proc_path: AbsolutePath = DEFAULTS["procPath"]
    """Mount point of procfs."""

    sys_path: AbsolutePath = DEFAULTS["sysPath"]
    """Mount point of sysfs."""

    node_features_path: AbsolutePath = DEFAULTS["nodeFeaturesPath"]
    """File for node-feature-discovery, which `install --nfd` creates."""

    runtime_roots: RuntimeRoots = {}
    """Directories with the runtimes' container states. Empty means those of runc, crun and containerd."""

    monitoring: Monitoring = Monitoring()
    classes: Annotated[list[MemoryClass], AfterValidator(unique_names)] = []
    """Memory classes of workloads, in the format of the memtierd NRI plugin."""

    unified_annotations: list[str] = []
    """Files such as memory.high that every pod may set by the annotation `FILE.memory-qos.nri.io`."""

    memory: Memory = Memory()
    memtierd: Memtierd = Memtierd()
    rdt: Rdt = Rdt()
    blockio: Blockio = Blockio()
    scheduling: Scheduling = Scheduling()
    log: LogSection = LogSection()

    telemetry: Any = Field(default=None, exclude=True)
    """Ignored key of the resctrl-mon plugin."""

    inject_mpolset: Any = Field(default=None, exclude=True)
    """Ignored key of the memory-policy plugin."""

    def remarks(self) -> list[Remark]:
        """Return remarks on ignored, unreachable and ineffective settings, and on classes for pods with limits."""
        found = self._on_memory_classes()
        if self.telemetry is not None:
            found.append(Remark(("telemetry",), _TELEMETRY))
        if self.inject_mpolset is not None:
            found.append(Remark(("injectMpolset",), _MPOLSET))
        found += [
            Remark(("unifiedAnnotations", place), _NO_FILE.format(", ".join(UNIFIED)))
            for place, name in enumerate(self.unified_annotations)
            if name not in UNIFIED
        ]
        hidden = next((folder for folder in _HIDDEN if f"{self.state_dir}/".startswith(f"{folder}/")), "")
        if hidden:
            found.append(Remark(("stateDir",), f"reconcile's systemd unit cannot access {hidden}"))
        return found

    def _on_memory_classes(self) -> list[Remark]:
        if not self.classes:
            return []
        names = [each.name for each in self.classes]
        found = []
        for section, allow in (("memory", self.memory.allow), ("memtierd", self.memtierd.allow)):
            remarks = allowed_in_vain(allow, names, "{pattern} matches no class; the classes are {known}", [NO_CLASS])
            found += [Remark((section, *remark.at), remark.text) for remark in remarks]
        policy = self.memory.failure_policy or self.memtierd.failure_policy or "fail"
        of_memtierd = any(one.is_of_memtierd() for one in self.classes)
        if of_memtierd and policy == "fail" and "allow_limits" not in self.memory.model_fields_set:
            found.append(Remark(("classes",), _LIMITS))
        return found
