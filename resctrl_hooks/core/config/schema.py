"""The JSON Schema of the configuration, for completion and validation in editors."""

from typing import Any

from .root import Configuration

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema in draft 2020-12. It covers keys, types and choices; `config check` covers the rest."""
    schema = Configuration.model_json_schema(by_alias=True)
    return {"$schema": DIALECT, **schema, "title": "resctrl-hooks configuration"}
