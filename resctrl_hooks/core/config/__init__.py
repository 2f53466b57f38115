"""The YAML configuration: its models, a module per section; checking, applying and showing it.

`effective_settings` is the entry point for commands. The models and pydantic are imported only to read a YAML file.
"""

from .effective import Effective, effective_settings, find_effective

__all__ = ["Effective", "effective_settings", "find_effective"]
