"""The JSON Schema of the configuration, which editors use to complete and check it while one types."""

from typing import Any

from .root import Configuration

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema, of draft 2020-12. It knows keys, types and choices; `config check` knows the rest."""
    schema = Configuration.model_json_schema(by_alias=True)
    return {"$schema": DIALECT, **schema, "title": "resctrl-hooks configuration"}
