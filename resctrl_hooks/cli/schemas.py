"""JSON Schemas of the commands' output, generated from the models that they print."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, create_model

from resctrl_hooks.cli.doctor import CheckResult
from resctrl_hooks.cli.past_text import LIST as PAST_LIST
from resctrl_hooks.config.applied import Change
from resctrl_hooks.config.problems import Problem
from resctrl_hooks.config.show import Shown
from resctrl_hooks.doctor.ungrouped import PodExplanation
from resctrl_hooks.explanation.model import Explanation
from resctrl_hooks.inventory.class_changes import ClassChange
from resctrl_hooks.inventory.guard import GuardedDomain, GuardStatus
from resctrl_hooks.inventory.models import HistoryStatus, Inventory, Pod, Rmids
from resctrl_hooks.inventory.pod_details import PodDetails
from resctrl_hooks.inventory.topology_view import TopologyReport
from resctrl_hooks.inventory.usage_models import DomainUsage, MemoryUsage, PowerUsage, Usage
from resctrl_hooks.node.reconcile.report import API_VERSION, Report
from resctrl_hooks.past.pods import PastPod
from resctrl_hooks.rdt.report import ClassReport
from resctrl_hooks.slowdown.diagnosis import Diagnosis


class ReconcileItem(BaseModel):
    """What reconcile did for a pod or container, or could not; ``id`` is the key or the container that it was about."""

    event: str
    id: str
    key: str
    namespace: str
    pod: str
    container: str
    message: str


def _head(model: type[BaseModel]) -> dict[str, Any]:
    """Return the keys of a document that are the fields of a model; its items are an excluded field."""
    fields = model.model_fields.items()
    return {field.serialization_alias or name: field.annotation for name, field in fields if not field.exclude}


_LISTS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "list": ("PodList", Pod, _head(Inventory)),
    "show": ("PodDetailsList", PodDetails, {}),
    "top": (
        "UsageList",
        Usage,
        {
            "by": Literal["pod", "namespace", "class"],
            "seconds": float,
            "llcBytes": int,
            "rmids": Rmids | None,
            "waiting": int,
            "uncounted": int,
            "domain": int | None,
            "domains": list[DomainUsage],
            "memoryDomains": list[MemoryUsage],
            "power": PowerUsage | None,
            "classChanges": list[ClassChange],
        },
    ),
    "rdt": ("RdtClassList", ClassReport, {}),
    "guard": ("GuardStatus", GuardedDomain, _head(GuardStatus)),
    "history-status": ("HistoryStatus", HistoryStatus, {}),
    "past": (PAST_LIST, PastPod, {}),
    "diagnose": ("DiagnosisList", Diagnosis, {"pods": int, "withBaseline": int}),
    "doctor": ("FindingList", CheckResult, {"ok": bool}),
    "explain": ("ExplanationList", Explanation, {}),
    "explain-pod": ("PodExplanationList", PodExplanation, {}),
    "topology": ("TopologyList", TopologyReport, {}),
    "config-check": ("ConfigProblemList", Problem, {"file": str, "valid": bool}),
    "config-apply": ("ConfigChangeList", Change, {"file": str, "applied": bool, "problems": list[Problem]}),
    "config-show": ("EffectiveConfigList", Shown, {}),
    "reconcile": (
        "ReconcileReport",
        ReconcileItem,
        {
            "ok": bool,
            "dryRun": bool,
            **{key: int for key, of in Report().totals().items() if isinstance(of, int)},
            **{key: list[str] for key, of in Report().totals().items() if isinstance(of, list)},
        },
    ),
}


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each command's ``-o json``."""
    return {command: _schema(*of) for command, of in _LISTS.items()}


def _schema(kind: str, item: Any, more: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "apiVersion": Literal[API_VERSION],
        "kind": Literal[kind],
        "host": str,
        "time": datetime,
        **more,
        "items": list[item],
    }
    required: dict[str, Any] = {name: (of, ...) for name, of in fields.items()}
    model: type[BaseModel] = create_model(kind, **required)
    schema: dict[str, Any] = _open(model.model_json_schema(by_alias=True, mode="serialization"))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _open(schema: Any) -> Any:
    """Return the schema without the ban on unknown keys: later versions, and settings from other versions, add some."""
    if isinstance(schema, dict):
        shut = schema.get("additionalProperties") is False
        return {key: _open(value) for key, value in schema.items() if not (shut and key == "additionalProperties")}
    return [_open(one) for one in schema] if isinstance(schema, list) else schema
