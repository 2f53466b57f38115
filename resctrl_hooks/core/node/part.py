"""`NodePart`, all that the node code of one house adds to core's, with `Row`, the facts about one of its features.

A hook reads all parts, and imports what it uses. So they are data, and functions are named as ``module:function``, the
module from the project's folder on.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class NodePart(TypedDict, total=False):
        """What the node code of one house adds; each key may be missing."""

        features: "dict[str, Row]"
        """Its features by name."""

        keys: "dict[str, Any]"
        """Its keys of the settings with their defaults: a value, or a section, whose keys join those of core's feature
        of the same name."""

        commands: "dict[str, str]"
        """Its commands by name: functions of the configuration's path and the arguments that return the exit code."""

        values: "dict[str, tuple[str, str, str]]"
        """Its changed values of the node by name: the program that changes them, in words; a file in the state
        directory that exists while there are some; and a function of the context that restores the values of a program
        that has ended, and returns a `Restored`. It raises `RunningError` while the program works."""

        always: "tuple[str, ...]"
        """Of its ``values`` those whose code all nodes have, because a command changes them with any settings."""

        files: "dict[str, tuple[str, str]]"
        """The files outside of the state directory that it replaces, by its section of the settings: the section's key
        with the folder, and the file's name."""


SELECTED, LISTED = "selected", "listed"
"""How the settings select a feature's containers: by the general selection, or by its ``namespaces``."""


class Row:
    """Facts about a feature that need no import.

    Args:
        rank: the place of its steps among those of all features.
        module: its module, from the project's folder on.
        mark: the common part of all annotations that request it, or several of which each has one; empty if annotations
            do not.
        defaults: its section of the settings with defaults.
        serves: SELECTED or LISTED; empty if annotations and classes select its containers.
        by_class: the key of a memory class that enables it; empty if ``enabled`` in its section does.
        by_list: with ``by_class``, the top-level list that enables it too; empty for none.
        policies: the sections whose first ``failurePolicy`` counts; empty for its own. Features with such sections
            refuse by default, as the memtierd plugin does: a workload must not run with another memory policy
            unnoticed.
        adopts: whether it records and repairs its steps for running containers itself, in `Feature.adopt` and
            `Feature.repair`.
        adjustable: its place among the features that ``nri.adjust`` can have; 0 if it is not among them.
        reverts: whether its steps leave things that must be removed when the container ends.
        leaves: files in the state directory, of which one exists while the feature has changed values of the node,
            also after it was disabled.
        most_starts: how often it is restarted within an hour if it ends by itself; 0 if it does not.
        needs: the record of its steps' parameters, as ``module:name``; empty if any are valid.
    """

    def __init__(
        self,
        rank: int,
        module: str,
        mark: "str | tuple[str, ...]",
        defaults: "dict[str, Any]",
        serves: str = "",
        by_class: str = "",
        policies: "tuple[str, ...]" = (),
        most_starts: int = 0,
        *,
        by_list: str = "",
        adopts: bool = False,
        adjustable: int = 0,
        reverts: bool = False,
        leaves: "tuple[str, ...]" = (),
        needs: str = "",
    ) -> None:
        self.rank = rank
        self.module = module
        self.marks = (mark,) if isinstance(mark, str) and mark else tuple(mark)
        self.defaults = defaults
        self.serves = serves
        self.by_class = by_class
        self.by_list = by_list
        self.policies = policies
        self.most_starts = most_starts
        self.adopts = adopts
        self.adjustable = adjustable
        self.reverts = reverts
        self.leaves = leaves
        self.needs = needs


def load(name: str) -> "Any":
    """Return the value that a part names as ``module:name``.

    Raises:
        ModuleNotFoundError: the module was not shipped to this node.
    """
    module, _, value = name.partition(":")
    return getattr(__import__(module, globals(), None, (value,), 3), value)
