"""Values held to JSON schemas."""

from typing import Any

import jsonschema


def refusal(value: Any, schema: dict[str, Any]) -> str:
    """Return a schema's objection to a value, or an empty string. The schema itself must be valid."""
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return "\n".join(f"{error.json_path}: {error.message}" for error in kind(schema).iter_errors(value))
