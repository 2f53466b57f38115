"""The ``nri`` section and the plugin's keys of a memory class: its changes to a container's specification."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.core.config.section import ONE_OR_LIST, AbsolutePath, Allow, OneNumber, Remark, Section, wrong
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.nri.node.adjustments import MOUNT_OPTIONS
from resctrl_hooks.nri.node.memory_policy import FLAGS, MAX_DISTANCE, MODES, WORDS

_ADJUSTABLE = sorted((row.adjustable, name) for name, row in FEATURES.items() if row.adjustable)
MountOption = Literal["bind", "rbind", "ro", "rw", "nosuid", "nodev", "noexec", "rprivate", "rslave"]
_POLICY = (
    "only the NRI plugin can set a memory policy, with a runtime that has NRI 0.12; hooks cannot. `placement.pools` "
    "with `mems` binds memory with both"
)


def _name(name: str) -> str:
    if not name or "=" in name or not name.isprintable():
        raise wrong(f"{name!r} is not a valid variable name")
    return name


def _value(value: str) -> str:
    if "\0" in value:
        raise wrong("a variable cannot contain NUL")
    return value


class ClassMount(Section):
    """A folder or file of the host in containers of a class."""

    source: AbsolutePath
    """Path on the host. Only root may own and write the path and its parent directories."""

    destination: AbsolutePath
    """Path in the container."""

    options: list[MountOption] = [*MOUNT_OPTIONS]
    """Options as in mount(8). Read-only without `rw`."""

    @model_validator(mode="after")
    def _binds(self) -> "ClassMount":
        if not {"bind", "rbind"} & set(self.options):
            raise wrong("options without bind or rbind have no effect", "begin them with rbind", at=("options",))
        return self


class ClassDevice(Section):
    """A device of the host, to read and write."""

    path: Annotated[AbsolutePath, Field(pattern=r"^/dev/")]
    """Path below /dev, on the host and in the container."""


Environment = dict[Annotated[str, AfterValidator(_name)], Annotated[str, AfterValidator(_value)]]


def _nodes(words: str) -> str:
    """Return the nodes as written, if they are valid."""
    try:
        if words not in WORDS and not (words.startswith(MAX_DISTANCE) and words[len(MAX_DISTANCE) :].isdecimal()):
            parse_list(words)
    except ValueError as error:
        raise wrong(f"{words[:80]!r} names no nodes", f"use {', '.join(WORDS)}, max-dist:N or a list") from error
    return words


class MemoryPolicy(Section):
    """A memory policy, as in the NRI plugin memory-policy: set_mempolicy(2)."""

    mode: Literal[MODES]  # type: ignore[valid-type]  # the names are those of the node half
    """The mode."""

    nodes: Annotated[str, OneNumber, AfterValidator(_nodes), ONE_OR_LIST] = "allowed-mems"
    """NUMA nodes: `0-1`, `all`, `allowed-mems` of the container, `cpu-nodes` or `cpu-packages` of its CPUs, or
    `max-dist:N` from its CPUs."""

    flags: list[Literal[FLAGS]] = []  # type: ignore[valid-type]  # as above
    """Flags of the mode."""


class ClassKeys(Section):
    """Keys of a memory class that only the plugin serves."""

    policy: MemoryPolicy | None = None
    """Memory policy; needs the NRI plugin, NRI 0.12 and `nri.allow`."""

    env: Environment = {}
    """Environment variables; need the NRI plugin and `nri.allow`."""

    mounts: list[ClassMount] = []
    """Mounts from the host; same conditions as `env`."""

    devices: list[ClassDevice] = []
    """Devices of the host; same conditions as `env`."""

    def is_of_memtierd(self) -> bool:
        """Return whether it may be a class of the memtierd plugin, which sets no memory policies."""
        return self.policy is None and super().is_of_memtierd()  # type: ignore[misc]  # the class has it

    def remarks(self) -> list[Remark]:
        """Return a remark that hooks set no memory policy, before those of the class."""
        return [*([Remark(("policy",), _POLICY)] if self.policy is not None else ()), *super().remarks()]


class Nri(Section):
    """Changes of the NRI plugin to a new container."""

    adjust: list[Literal[tuple(name for _, name in _ADJUSTABLE)]] = []  # type: ignore[valid-type]  # as above
    """Features whose values are also in the container's specification, and survive a daemon-reload and updates."""

    allow: Allow = {}
    """Classes whose `policy`, `env`, `mounts` and `devices` each namespace may use: `{namespace pattern: [class
    patterns]}`."""


class NriKeys(Section):
    """The key of the top level."""

    nri: Nri = Nri()
