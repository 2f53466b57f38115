"""The JSON Schemas of what `list`, `show`, `top` and `rdt` print, written from the models that they print."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, create_model

from resctrl_hooks.cli.document import API_VERSION
from resctrl_hooks.inventory.models import FreeCounters, Group, Pod, PodDetails, Refusal, Rmids, Usage
from resctrl_hooks.rdt.classes import ClassReport

_LISTS: dict[str, tuple[str, type[BaseModel], dict[str, Any]]] = {
    "list": (
        "PodList",
        Pod,
        {
            "resctrl": str,
            "problem": str,
            "rmids": Rmids | None,
            "bandwidthCounters": list[FreeCounters],
            "foreignGroups": list[Group],
            "refusals": list[Refusal],
        },
    ),
    "show": ("PodDetailsList", PodDetails, {}),
    "top": (
        "UsageList",
        Usage,
        {"by": Literal["pod", "namespace", "class"], "llcBytes": int, "rmids": Rmids | None, "waiting": int},
    ),
    "rdt": ("RdtClassList", ClassReport, {}),
}


def schemas() -> dict[str, dict[str, Any]]:
    """By command, the schema of its ``-o json``."""
    return {command: _schema(*of) for command, of in _LISTS.items()}


def _schema(kind: str, item: type[BaseModel], more: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "apiVersion": Literal[API_VERSION],
        "kind": Literal[kind],
        "host": str,
        "time": datetime,
        **more,
        "items": list[item],  # type: ignore[valid-type]  # known when it is called
    }
    required: dict[str, Any] = {name: (of, ...) for name, of in fields.items()}
    model: type[BaseModel] = create_model(kind, **required)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(by_alias=True, mode="serialization"),
    }
