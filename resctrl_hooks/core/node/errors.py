"""Lazy access to `error_types`: creating the types takes 3 % of a hook's time, and most hooks need none.

The modules of every hook import this one and write ``errors.HookError``; all other modules import names as usual.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .error_types import *  # noqa: F403 - the same names, whichever there are

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return an error type by its name, on first use."""
        if name.startswith("_"):
            raise AttributeError(name)  # the import system looks up some of these names
        from . import error_types

        found = globals()[name] = getattr(error_types, name)
        return found
