"""Values held to JSON schemas."""

import sys
from typing import Any
from unittest.mock import patch

# A checker of international addresses, which none of our schemas asks for: it compiles its grammars when it is
# imported, two seconds in each worker (pytest-xdist).
with patch.dict(sys.modules, {"rfc3987_syntax": None}):
    import jsonschema


def refusal(value: Any, schema: dict[str, Any]) -> str:
    """Return a schema's objection to a value, or an empty string. The schema itself must be valid."""
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return "\n".join(f"{error.json_path}: {error.message}" for error in kind(schema).iter_errors(value))
