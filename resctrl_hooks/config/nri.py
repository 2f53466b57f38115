"""The ``nri`` section: changes that the NRI plugin may make to a container's specification before its creation."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from resctrl_hooks.nri.adjustments import MOUNT_OPTIONS

from .section import AbsolutePath, Allow, Section, wrong

Adjustable = Literal["memory", "rdt", "placement", "blockio", "scheduling"]
MountOption = Literal["bind", "rbind", "ro", "rw", "nosuid", "nodev", "noexec", "rprivate", "rslave"]


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
    """Path on the host. It and its parent directories must be owned by root and writable only by root."""

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
    """A device of the host that containers of a class can read and write: NRI supports no other access."""

    path: Annotated[AbsolutePath, Field(pattern=r"^/dev/")]
    """Path below /dev, the same on the host and in the container."""


Environment = dict[Annotated[str, AfterValidator(_name)], Annotated[str, AfterValidator(_value)]]


class Nri(Section):
    """Changes of the NRI plugin to a new container. Hooks cannot make them. By default the plugin makes none."""

    adjust: list[Adjustable] = []
    """Features that also set their values in the container's specification. The values then survive a daemon-reload and
    resource updates."""

    allow: Allow = {}
    """Classes whose `policy`, `env`, `mounts` and `devices` each namespace may use: `{namespace pattern: [class
    patterns]}`. Default: none."""


class NriKeys(Section):
    """The key of the top level."""

    nri: Nri = Nri()
