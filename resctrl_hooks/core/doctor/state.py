"""Checks of the configuration, the state directory, and the groups and classes in resctrl."""

import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.node.errors import HookError, NotMountedError
from resctrl_hooks.core.node.host.files import ASIDE
from resctrl_hooks.core.node.host.links import folder_of
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.reconcile.claim import claimable_prefixes
from resctrl_hooks.core.node.resctrl.totals_file import CLASSES, KEYS
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG, MANAGED_BY, config_command, is_unapplied
from resctrl_hooks.core.rdt.classes import Classes

from .finding import Check, Finding, NotFixedError, ok, problem, some, warning
from .host import Host

_BY_OTHERS: Final = 0o022
_AGAIN: Final = "counters began again without it"
_WITHOUT: Final = {KEYS: _AGAIN, CLASSES: _AGAIN}
"""By file: what the loss of its content means."""


def configuration(host: Host) -> Iterator[Finding]:
    """Check that the configuration is valid and active."""
    from resctrl_hooks.core.config.check import check_file  # noqa: PLC0415  # the models, which not every command needs

    apply = f"`{config_command(host.config)}`"
    if host.settings_problem:
        yield problem(host.settings_problem, f"run `{config_command(host.config, 'check')}`, then {apply}")
        return
    assert host.active is not None
    real = host.tree.real(host.config)
    found = check_file(real).problems if os.path.lexists(real) and not real.endswith(".json") else []
    errors = [one for one in found if one.severity == "error"]
    if host.active.source != "compiled":
        yield from _not_compiled(host, apply)
    elif errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        text = f"not applied: {errors[0]}{more}; {host.active.path} stays active"
        yield warning(text, f"correct the file, then run {apply}")
    elif is_unapplied(real):
        yield _unapplied(host, apply)
    else:
        missing = "" if os.path.lexists(real) or _owner(host) else f"; {host.config} does not exist"
        yield ok(f"{host.active.path} is active{missing}")
    for one in found:
        if one.severity == "note":
            yield ok(f"note: {one}")  # this may be intended
        elif one.severity != "error":
            yield warning(str(one), f"edit it, then run {apply}")
        elif host.active.source != "compiled":
            yield problem(str(one), f"edit it, then run {apply}")


def _not_compiled(host: Host, apply: str) -> Iterator[Finding]:
    assert host.active is not None
    if host.active.problem:
        remedy = f"run `{config_command(host.config, 'check')}`, then {apply}"
        yield problem(host.active.problem, remedy, partial(_apply, host))
    elif host.active.source == "defaults":
        yield ok("no configuration file; the built-in defaults apply")
    else:
        yield ok(f"{host.active.path} is active")


def _unapplied(host: Host, apply: str) -> Finding:
    """Return the finding for an edited file: everything else is checked with the active settings."""
    assert host.active is not None
    if owner := _owner(host):
        text = f"{host.config} has no effect: {host.active.path} belongs to {owner}"
        return warning(text, f"change its source, then remove {host.config}")
    text = f"{host.config} was edited and is not applied; {host.active.path} stays active"
    return warning(text, f"run {apply}", partial(_apply, host))


def _owner(host: Host) -> str:
    """Return the program that owns the active settings; empty for `config apply`."""
    from resctrl_hooks.core.config.applied import read_compiled  # noqa: PLC0415  # as above

    assert host.active is not None
    return str((read_compiled(host.active.path) or {}).get(MANAGED_BY) or "")


def _apply(host: Host) -> str:
    from resctrl_hooks.core.config.applied import apply_file  # noqa: PLC0415  # as above

    return f"{apply_file(host.tree.real(host.config)).path} is active"


def state_directory(host: Host) -> Iterator[Finding]:
    """Check that records can be written, and only by root."""
    path = host.settings.state_dir
    try:
        found = os.lstat(folder_of(path))
    except FileNotFoundError:
        yield ok(f"{path} does not exist yet; the first hook creates it")
        return
    except OSError as error:
        yield problem(
            f"{path}: {error.strerror}", "make it a root-owned directory with mode 0700 on a local file system"
        )
        return
    if not stat.S_ISDIR(found.st_mode):
        yield problem(f"{path} is not a directory", f"remove it: rm {path}")
        return
    if found.st_uid != 0 or found.st_mode & _BY_OTHERS:
        yield problem(
            f"users other than root can write to {path}",
            f"chown root {path}; chmod 0700 {path}",
            partial(_protect, path),
        )
    room = os.statvfs(path)
    if room.f_bavail == 0 or (room.f_files and room.f_ffree == 0):
        yield problem(f"the file system of {path} is full", "free some space: no groups are created without records")
        return
    try:
        probe = f"{path}/.doctor"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(probe)
    except OSError as error:
        why = (
            "mount it read-write" if error.errno == errno.EROFS else "run doctor as root; otherwise see the kernel log"
        )
        yield problem(f"cannot write {path}: {error.strerror}", why)
        return
    keys = len(host.context.ledger.keys())
    yield ok(f"{path} contains the records of {keys} pod{'' if keys == 1 else 's'}")
    for aside in sorted([*Path(path).glob(f"*{ASIDE}"), *Path(path, TOTALS).glob(f"*{ASIDE}")]):
        name, when = aside.name.removesuffix(ASIDE), clock(aside.stat().st_mtime)
        yield warning(
            f"{name}, written at {when}, was damaged and is set aside; {_WITHOUT.get(name, 'its content is lost')}",
            f"see the kernel log for errors of the file system; then rm {aside}",
        )


def _protect(path: str) -> str:
    os.chown(path, 0, 0)
    os.chmod(path, 0o700)
    return f"only root can write to {path}"


def permissions(host: Host) -> Iterator[Finding]:
    """Check who can write what root's hooks execute and read, and the SELinux labels."""
    from resctrl_hooks.core.install.paths import CODE, LAUNCH  # noqa: PLC0415  # close to its only use

    folder = os.path.dirname(host.config)
    for path in (CODE, LAUNCH, folder, host.config):
        try:
            found = os.stat(host.tree.real(path))
        except OSError:
            continue
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & _BY_OTHERS:
            yield problem(
                f"users other than root can write to {path}, which root trusts",
                f"chown root {path}; chmod go-w {path}",
            )
    yield from _labels(host, (CODE, LAUNCH, host.config))


def _labels(host: Host, paths: tuple[str, ...]) -> Iterator[Finding]:
    """Check that SELinux labels match the host's policy for these paths: matchpathcon(8)."""
    if not os.path.isdir(host.tree.real("/sys/fs/selinux")):
        return
    for path in paths:
        try:
            label = os.getxattr(host.tree.real(path), "security.selinux").decode().rstrip("\0")
        except OSError:
            continue
        required = host.run("matchpathcon", "-n", path)
        if required and required.split(":")[2:3] != label.split(":")[2:3]:
            yield warning(
                f"{path} has the SELinux label {label}, but the policy requires {required}", f"restorecon -R {path}"
            )
        else:
            yield ok(f"{path} has the SELinux label {label}{', as the policy requires' if required else ''}")


def groups(host: Host) -> Iterator[Finding]:
    """Check for groups without an owner, records without a group, and threads outside their group."""
    if os.geteuid() != 0:
        yield warning("not running as root: some checks are incomplete", "run `resctrl-hook doctor` as root")
    inventory = host.inventory
    if inventory is None or inventory.problem:
        return
    claimed = {prefix + key for key in _claimable(host) for prefix in claimable_prefixes(host.context)}
    leaked = [group for group in inventory.foreign if group.name in claimed]
    others = [group for group in inventory.foreign if group not in leaked]
    if leaked:
        yield warning(
            f"groups with names like the hook's, but without a record: {some([group.path for group in leaked])}",
            "`resctrl-hook reconcile --claim` adopts the groups of live pods and removes the others",
        )
    if others:
        yield ok(f"foreign groups are not changed: {some([group.path for group in others])}")
    partly = [pod.name for pod in inventory.pods if pod.state == "partly"]
    if partly:
        yield warning(
            f"ungrouped threads: {some(partly)}",
            "run `resctrl-hook reconcile` to move these threads into their pods' groups",
            partial(_reconcile, host),
        )
    missing = [
        f"{group.path} of {pod.name}" for pod in inventory.pods for group in pod.groups if group.origin == "missing"
    ]
    if missing:
        yield warning(
            f"recorded groups are missing: {some(missing)}",
            "run `resctrl-hook reconcile` to create them again",
            partial(_reconcile, host),
        )
    if not (leaked or partly or missing):
        yield ok("no leaked, missing or incomplete groups")


def _claimable(host: Host) -> list[str]:
    """Return the keys whose groups `reconcile --claim` would adopt, as reconcile itself decides."""
    from resctrl_hooks.core.node.reconcile.reconcile import reconcile as run  # noqa: PLC0415  # as above
    from resctrl_hooks.core.node.reconcile.report import Options  # noqa: PLC0415  # for this check only

    return [*run(host.context, Options(dry_run=True, claim=True)).events["claimed"]]


def _reconcile(host: Host) -> str:
    from resctrl_hooks.core.node.reconcile.reconcile import reconcile  # noqa: PLC0415  # for this fix only

    try:
        report = reconcile(host.context)
    except HookError as error:
        raise NotFixedError(f"reconcile failed: {error}") from error
    if why := [*report.events["failed"].values()]:
        raise NotFixedError("; ".join(dict.fromkeys(why)))
    return f"reconcile: {report.as_line() or 'nothing is left to do'}"


def other_configuration(host: Host) -> Iterator[Finding]:
    """Check whether a named configuration differs from the one that a default installation's hooks use."""
    if host.config != DEFAULT_CONFIG and host.manifest and host.manifest.config not in ("", host.config):
        yield warning(
            f"the hooks were installed with the configuration {host.manifest.config}",
            f"resctrl-hook --config {host.manifest.config} doctor",
        )


def classes(host: Host) -> Iterator[Finding]:
    """Check that the declared RDT classes exist with their values; a container whose class is missing has none."""
    if not host.settings.rdt.get("classes"):
        return
    try:
        reports = Classes.of_node(host.context).show()
    except NotMountedError:
        return  # the check of the mount reports it
    wrong = [f"{one.name} ({one.state})" for one in reports if one.state not in ("as declared", "not declared")]
    if wrong:
        remedy = "run `resctrl-hook rdt apply`; `resctrl-hook rdt show` prints the differences"
        yield warning(f"declared RDT classes: {some(wrong)}", remedy)
    else:
        yield ok(f"the declared RDT classes are as declared: {some(list(host.settings.rdt['classes']))}")


CHECKS: Final = {
    "configuration": Check(configuration, of_files=True),
    "other config": Check(other_configuration, of_files=True),
    "state": Check(state_directory),
    "permissions": Check(permissions, of_files=True),
    "groups": Check(groups),
    "classes": Check(classes),
}
