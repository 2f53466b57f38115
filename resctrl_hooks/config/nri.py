"""The ``nri`` section: changes that the NRI plugin may make to a container's specification before its creation."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.nri.adjustments import MOUNT_OPTIONS

from .section import AbsolutePath, Allow, Section, wrong

Adjustable = Literal["memory", "rdt", "placement", "blockio", "scheduling"]
MountOption = Literal["bind", "rbind", "ro", "rw", "nosuid", "nodev", "noexec", "rprivate", "rslave"]


def _name(name: str) -> str:
    if not name or "=" in name or not name.isprintable():
        raise wrong(f"{name!r} is no name of a variable")
    return name


def _value(value: str) -> str:
    if "\0" in value:
        raise wrong("a variable can't hold a NUL")
    return value


class ClassMount(Section):
    """A folder or file of the host in containers of a class."""

    source: AbsolutePath
    """On the host. It and all folders above it must belong to root, and be writable by nobody else."""

    destination: AbsolutePath
    """In the container."""

    options: list[MountOption] = [*MOUNT_OPTIONS]
    """As mount(8) has them. Read-only unless `rw` is said."""

    @model_validator(mode="after")
    def _binds(self) -> "ClassMount":
        if not {"bind", "rbind"} & set(self.options):
            raise wrong("options without bind or rbind mount nothing", "begin them with rbind", at=("options",))
        return self


class ClassDevice(Section):
    """A device of the host in containers of a class, which may read and write it: NRI has no other access."""

    path: Annotated[AbsolutePath, Field(pattern=r"^/dev/")]
    """Below /dev, the same in the container."""


Environment = dict[Annotated[str, AfterValidator(_name)], Annotated[str, AfterValidator(_value)]]


class Nri(Section):
    """What the NRI plugin changes at a container's creation. Hooks can't, and nothing is changed by default."""

    adjust: list[Adjustable] = []
    """Which features also set their values in the container's specification, so that they survive a daemon-reload and
    updates of its resources: memory limits, the runtime's own RDT and block I/O classes of that name, the cpuset of
    placement, scheduler and I/O priority. What a runtime can't take there is set when the container starts."""

    allow: Allow = {}
    """Which namespaces may have `env`, `mounts` and `devices` of which of `classes`; by default none:
    `{namespace pattern: [class patterns]}`."""
