"""The features and programs whose values on this node reconcile repairs or restores."""

from ..feature_table import FEATURES
from ..host.files import is_there
from ..parts import PARTS
from ..registry import feature_named, features_in_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..feature import Feature


def features_to_repair(context: "Context") -> "list[Feature]":
    """Return the enabled features, and disabled ones that changed values of this node before."""
    enabled = features_in_use(context.settings)
    return enabled + [feature for feature in features_with_values(context) if feature not in enabled]


def features_with_values(context: "Context") -> "list[Feature]":
    """Return the features that changed values of this node; their file in the state directory lists them."""
    left = [
        name
        for name, row in FEATURES.items()
        if any(is_there(f"{context.ledger.folder}/{leaf}") for leaf in row.leaves)
    ]
    return [feature for feature in map(feature_named, left) if feature is not None]


def changed_values(context: "Context") -> "list[tuple[str, str, str]]":
    """Return the values of this node that programs of the parts have changed: name, program, restoring function."""
    values = (item for part in PARTS for item in part.get("values", {}).items())
    return [
        (name, program, function)
        for name, (program, leaf, function) in values
        if is_there(f"{context.ledger.folder}/{leaf}")
    ]
