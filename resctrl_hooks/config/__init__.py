"""The configuration that people write: its models, a module per section; checking, applying and showing it.

`effective_settings` is what commands need. The models and pydantic are imported only where a YAML file is read.
"""

from .effective import Effective, effective_settings, find_effective

__all__ = ["Effective", "effective_settings", "find_effective"]
