"""Keys that the houses add to sections of the configuration, as their parts name them."""

import types
from collections.abc import Callable
from typing import TypeVar

from resctrl_hooks.core.parts import load, parts

from .section import Section, by_key

_Model = TypeVar("_Model", bound=Section)


def with_added_keys(section: str = "") -> Callable[[type[_Model]], type[_Model]]:
    """Return the decorator of a section to which houses add keys.

    The decorated class inherits the models with these keys, so that their validators and remarks apply.

    Args:
        section: its name in `Part.keys`.
    """

    def extended(model: type[_Model]) -> type[_Model]:
        added = [(keys.after, load(keys.model)) for part in parts() for keys in part.keys if keys.section == section]
        if not added:
            return model
        order = [*by_key(model)]
        for after, one in reversed(added):  # of several at one place, the last is inserted first
            place = order.index(after) + 1 if after else len(order)
            order[place:place] = by_key(one)
        return _in_order(_joined(model, [one for _, one in added]), order)

    return extended


def _joined(model: type[_Model], added: list[type[Section]]) -> type[_Model]:
    names = {name: getattr(model, name) for name in ("__module__", "__qualname__", "__doc__")}
    joined: type[_Model] = types.new_class(model.__name__, (*added, model), exec_body=lambda space: space.update(names))
    return joined


def _in_order(model: type[_Model], order: list[str]) -> type[_Model]:
    """Give a model the order of its keys, in which people read them; inheritance gives it another one."""
    fields = model.model_fields
    named = {field.alias or name: (name, field) for name, field in fields.items()}
    fields.clear()
    fields.update(named[key] for key in order)
    model.model_rebuild(force=True)
    return model
