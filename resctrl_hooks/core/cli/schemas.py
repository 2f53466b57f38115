"""JSON Schemas of the commands' output, generated from the models that they print."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, create_model

from resctrl_hooks.core.cli.doctor import CheckResult
from resctrl_hooks.core.config.applied import Change
from resctrl_hooks.core.config.problems import Problem
from resctrl_hooks.core.config.show import Shown
from resctrl_hooks.core.doctor.ungrouped import PodExplanation
from resctrl_hooks.core.explanation.model import Explanation
from resctrl_hooks.core.inventory.models import Inventory, Pod
from resctrl_hooks.core.inventory.pod_details import PodDetails
from resctrl_hooks.core.node.reconcile.report import API_VERSION, Report
from resctrl_hooks.core.parts import load, parts
from resctrl_hooks.core.rdt.report import ClassReport


class ReconcileItem(BaseModel):
    """What reconcile did for a pod or container, or could not; ``id`` is the key or the container that it was about."""

    event: str
    id: str
    key: str
    namespace: str
    pod: str
    container: str
    message: str


class Document(NamedTuple):
    """A document for programs.

    Args:
        kind: its kind.
        item: the type of its items.
        head: the types of its other keys.
    """

    kind: str
    item: Any
    head: Mapping[str, Any] = {}


def head_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the keys of a document that are the fields of a model; its items are an excluded field."""
    fields = model.model_fields.items()
    return {field.serialization_alias or name: field.annotation for name, field in fields if not field.exclude}


DOCUMENTS: Final = {
    "list": Document("PodList", Pod, head_of(Inventory)),
    "show": Document("PodDetailsList", PodDetails),
    "rdt": Document("RdtClassList", ClassReport),
    "doctor": Document("FindingList", CheckResult, {"ok": bool}),
    "explain": Document("ExplanationList", Explanation),
    "explain-pod": Document("PodExplanationList", PodExplanation),
    "config-check": Document("ConfigProblemList", Problem, {"file": str, "valid": bool}),
    "config-apply": Document("ConfigChangeList", Change, {"file": str, "applied": bool, "problems": list[Problem]}),
    "config-show": Document("EffectiveConfigList", Shown),
    "reconcile": Document(
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
"""The documents of the core, by the name of their schema."""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each command's ``-o json``, sorted by name."""
    documents = {name: one for part in parts() if part.documents for name, one in load(part.documents).items()}
    return {name: _schema(*documents[name]) for name in sorted(documents)}


def _schema(kind: str, item: Any, head: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "apiVersion": Literal[API_VERSION],
        "kind": Literal[kind],
        "host": str,
        "time": datetime,
        **head,
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
