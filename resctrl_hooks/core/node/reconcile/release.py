"""The ``release`` command for an uninstallation: release everything that this program holds on a node.

It stops the processes started for containers, which continue running, and removes all groups, records, and last the
state directory.
"""

import posix
import sys

from ..context import Context
from ..errors import HookError, SettingsError
from ..fault_report import as_hook_error
from ..host.files import is_folder, list_folder, remove_file
from ..host.instance import RunningError
from ..host.links import folder_of
from ..lifecycle import release_key
from ..log import ERROR, WARNING, Log
from ..part import load
from ..settings import load as load_settings
from .repaired import changed_values, features_to_repair, features_with_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..feature import Feature
    from ..restored import Restored

STAGE = "release"
_OURS = "resctrl-hooks"
_USAGE = "usage: release\n"
OK, WRONG, MISUSED = 0, 1, 2


class Released:
    """Released objects and failures, one line for each.

    Attributes:
        keys: Keys whose groups and records are removed.
        restored: Values of the node that programs of the parts had changed.
        problems: Failures; the state directory stays then.
    """

    def __init__(self) -> None:
        self.keys: "list[str]" = []
        self.restored: "list[str]" = []
        self.problems: "list[str]" = []


def release_everything(context: "Context") -> Released:
    """Release all containers, groups and records of this node, then remove the state directory.

    It can be interrupted at any point and called again. Foreign groups stay.
    """
    done = Released()
    _restore(context, done)
    for key in context.ledger.keys():  # noqa: SIM118  # it is no dictionary
        try:
            with context.monitor.hold(key) as locked:
                if release_key(locked, context, ended=True):
                    done.keys.append(key)
                else:
                    done.problems.append(f"cannot release {key}: its lock is held; run release again")
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            done.problems.append(f"cannot release {key}: {as_hook_error(error)}")
    _withdraw(features_to_repair(context), context, done)
    state = context.settings.state_dir
    if not done.problems and _OURS in state.rpartition("/")[2]:  # never remove a foreign folder by mistake
        try:
            _remove_folder(folder_of(state))
            remove_file(state)  # a link to it
        except OSError as error:
            done.problems.append(f"cannot remove {error.filename or state}: {error.strerror}")
    return done


def restore_values(context: "Context", done: "Released") -> None:
    """Restore the values that parts and features changed for the whole node; containers keep theirs."""
    _restore(context, done)
    _withdraw(features_with_values(context), context, done)


def _withdraw(features: "list[Feature]", context: "Context", done: "Released") -> None:
    for feature in features:
        try:
            feature.withdraw(context)
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            done.problems.append(f"cannot undo {feature.name}: {as_hook_error(error)}")


def _restore(context: "Context", done: "Released") -> None:
    """Restore the values of the node that programs of the parts changed."""
    context.withdrawing = True
    for _, owner, function in changed_values(context):
        try:
            restored: "Restored" = load(function)(context)
        except RunningError as error:
            done.problems.append(f"cannot restore the values changed by {owner}: {error}; stop it first")
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            done.problems.append(f"cannot restore the values changed by {owner}: {as_hook_error(error)}")
        else:
            done.restored += restored.done
            done.problems += [f"cannot restore {line}" for line in restored.failed]


def _remove_folder(path: str) -> None:
    """Remove a folder with everything in it; links are removed, not followed."""
    if not is_folder(path):
        return
    for name in list_folder(path):
        inner = f"{path}/{name}"
        if is_folder(inner):
            _remove_folder(inner)
        else:
            remove_file(inner)
    posix.rmdir(path)


def release_command(config: str, arguments: "list[str]") -> int:
    """Run the command; return 0 if nothing is left, 1 if something is left, 2 for wrong use or settings."""
    if arguments:
        sys.stderr.write(_USAGE)
        return MISUSED
    try:
        settings, problem = load_settings(config)
        if problem:
            Log()(WARNING, problem, stage=STAGE)
        done = release_everything(Context(settings))
    except SettingsError as error:
        Log()(ERROR, f"release: {error}", stage=STAGE, reason=error.reason)
        return MISUSED
    except HookError as error:
        Log()(ERROR, f"release: {error}", stage=STAGE, reason=error.reason)
        return WRONG
    for line in done.restored:
        sys.stdout.write(f"restored {line}\n")
    for key in done.keys:
        sys.stdout.write(f"released {key}\n")
    for line in done.problems:
        sys.stderr.write(f"{line}\n")
    return WRONG if done.problems else OK
