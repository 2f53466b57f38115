"""The base of all report models, and the displayed name of a group."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from resctrl_hooks.node.names import name_text
from resctrl_hooks.node.resctrl.filesystem import MON_GROUPS


def group_name(rdt_class: str, name: str) -> str:
    """Return the displayed name of a foreign group: its folder below resctrl's root."""
    return f"{rdt_class}/{MON_GROUPS}/{name}".lstrip("/")


KernelName = Annotated[str, PlainSerializer(name_text, return_type=str)]
"""A name of a class or a group as the kernel has it, printed as text."""


class Record(BaseModel):
    """What is printed: by alias, with the keys of the contract (camelCase)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
