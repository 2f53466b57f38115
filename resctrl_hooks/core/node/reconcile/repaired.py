"""The features whose values on this node reconcile repairs."""

from ..feature_table import FEATURES
from ..host.files import is_there
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
    """Return the features that changed values of this node; their file in the state directory tells."""
    left = [
        name
        for name, row in FEATURES.items()
        if any(is_there(f"{context.ledger.folder}/{leaf}") for leaf in row.leaves)
    ]
    return [feature for feature in map(feature_named, left) if feature is not None]
