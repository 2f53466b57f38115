"""Expressions that select containers, in the format of the policies of nri-plugins."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema, model_validator

from resctrl_hooks.core.config.section import Section, wrong
from resctrl_hooks.placement.node.expressions import KEYS, LABELS, OPERATORS, POD_LABELS, unknown_key


def _key(key: str) -> str:
    unknown = unknown_key(key)
    if unknown or not key:
        known = f"{', '.join(sorted(KEYS))}, {LABELS}NAME, {POD_LABELS}NAME"
        raise wrong(f"unknown key {unknown!r}", f"the keys are {known}")
    return key


def _operator(operator: Any) -> Any:
    if operator == "NotExists":  # so in balloons' documentation; its code has the other word
        return "NotExist"
    if not isinstance(operator, str) or operator not in OPERATORS:
        raise wrong(f"unknown operator {operator!r}", f"the operators are {', '.join(OPERATORS)}")
    return operator


class Expression(Section):
    """A condition, as in the NRI policies."""

    key: Annotated[str, AfterValidator(_key)] = "name"
    """`name`, `namespace`, `qosclass`, `id`, `labels/NAME`, `pod/name`, `pod/uid`, `pod/labels/NAME` and so on.
    `:KEY:KEY` joins values."""

    operator: Annotated[str, BeforeValidator(_operator), WithJsonSchema({"enum": list(OPERATORS)})]
    """The comparison. `Matches…` takes patterns (`*`, `?`)."""

    values: list[str] = []
    """The values to compare with."""

    @model_validator(mode="after")
    def _numbers(self) -> "Expression":
        number = OPERATORS[self.operator]
        if number is not None and len(self.values) != number:
            raise wrong(f"{self.operator} takes {number or 'no'} value{'s' * (number != 1)}, not {len(self.values)}")
        if self.operator.startswith("Matches") and any("[" in value for value in self.values):
            raise wrong("a pattern has a bracket", "use * for any text and ? for one character", at=("values",))
        if not self.model_fields_set & {"key"} and self.operator != "AlwaysTrue":
            raise wrong("key is missing", "only AlwaysTrue needs no key")
        return self
