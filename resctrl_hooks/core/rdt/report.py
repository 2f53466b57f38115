"""The report of one class for `rdt show` and `rdt apply`."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from resctrl_hooks.core.node.host.files import kernel_text
from resctrl_hooks.core.node.names import name_text
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl

from .capabilities import read_schemata

State = Literal["as declared", "missing", "differs", "impossible", "not declared"]


class ClassReport(BaseModel):
    """One class: how it is, and where that differs from how it is declared."""

    name: str
    state: State
    schemata: dict[str, dict[int, str]] = {}
    units: dict[str, str] = {}
    declared: dict[str, Any] = {}
    held: dict[int, int] = {}
    owner: str = Field(default="", exclude=True)
    """The process that holds them."""
    mode: str = ""
    tasks: int = 0
    problems: list[str] = []
    notes: list[str] = []
    planned: list[str] = []
    done: list[str] = []


def foreign_report(resctrl: Resctrl, name: str) -> ClassReport:
    """Return the report of a class whose name `names.valid_class` refuses.

    Raises:
        NotMountedError, ResctrlError: as `read_schemata`.
    """
    folder = f"{resctrl.root}/{name}"
    return ClassReport(
        name=name_text(name),
        state="not declared",
        schemata=read_schemata(resctrl.root, name),
        mode=kernel_text(f"{folder}/mode"),
        tasks=len(kernel_text(f"{folder}/tasks").split()),
        notes=["foreign: no container can use a class with this name"],
    )
