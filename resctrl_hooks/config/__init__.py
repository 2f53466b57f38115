"""The configuration that people write: its models, a module per section; checking, applying and showing it.

`settings_in_force` is what commands need. The models and pydantic are imported only where a YAML file is read.
"""

from .force import InForce, in_force, settings_in_force

__all__ = ["InForce", "in_force", "settings_in_force"]
