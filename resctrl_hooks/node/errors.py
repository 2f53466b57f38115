"""The door to `error_types`, whose types are made when something goes wrong: making them takes 3 % of a hook's time.

What every hook runs imports this module and writes ``errors.HookError``; all other modules import names as usual.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .error_types import *  # noqa: F403 - the same names, whichever there are

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return a type of error, by its name, when it is first asked for."""
        if name.startswith("_"):
            raise AttributeError(name)  # the import system looks for some
        from . import error_types

        found = globals()[name] = getattr(error_types, name)
        return found
