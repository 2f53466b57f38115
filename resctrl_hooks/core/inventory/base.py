"""The base of all report models, and the displayed name of a group."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from resctrl_hooks.core.node.names import name_text
from resctrl_hooks.core.node.resctrl.filesystem import MON_GROUPS


def group_name(rdt_class: str, name: str) -> str:
    """Return the displayed name of a foreign group: its folder below resctrl's root."""
    return f"{class_text(rdt_class)}/{MON_GROUPS}/{name}".lstrip("/")


def class_text(rdt_class: str) -> str:
    """Return the name of a class as text for any output; one that the configuration accepts is unchanged."""
    return rdt_class if rdt_class.isprintable() else name_text(rdt_class)


ClassName = Annotated[str, PlainSerializer(class_text, return_type=str)]
"""A name of a class as the kernel has it, printed as `class_text`."""
KernelName = Annotated[str, PlainSerializer(name_text, return_type=str)]
"""A name of a group as the kernel has it, printed as text."""


class Record(BaseModel):
    """What is printed: by alias, with the keys of the contract (camelCase)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
