"""Checks of the container runtimes and of the hook's registration in them."""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.install.directories import RUNTIMES, RuntimeConfigError, directories
from resctrl_hooks.core.install.hook_json import hook_problems
from resctrl_hooks.core.install.houses import WITHOUT_CODE, missing
from resctrl_hooks.core.install.paths import CODE, HOOK_NAME, UNITS
from resctrl_hooks.core.install.present import named_folder
from resctrl_hooks.core.install.runtime import Runtime
from resctrl_hooks.core.install.unit_files import SERVER
from resctrl_hooks.core.install.watching import LOOKS_PAST, looks_past
from resctrl_hooks.core.node.settings import active_path, compiled_path

from .finding import Check, Finding, ok, problem, warning
from .host import Host, names
from .plugins import INJECTOR, other_plugins

_OCI_RUNTIMES: Final = ("crun", "runc")
_INSTALL: Final = "`resctrl-hook install --runtime {}`"
_OPTION: Final = "--config"


def found(host: Host) -> Iterator[Finding]:
    """Check which runtimes are installed, and which hook directories each of them reads."""
    there = installed(host)
    if not there:
        yield warning(
            "no container runtime found (CRI-O, Podman or containerd)", "install one, then run `resctrl-hook install`"
        )
    for runtime in there:
        version = (host.run(runtime.name, "--version") or "").splitlines()
        try:
            read = directories(runtime, host.tree.root)
        except (OSError, RuntimeConfigError) as error:
            yield problem(
                f"cannot read {runtime.name}'s configuration: {error}", "fix it; the runtime cannot read it either"
            )
            continue
        note = "; it needs NRI's hook-injector plugin to run OCI hooks" if runtime.name == "containerd" else ""
        yield ok(f"{version[0] if version else runtime.name} reads hooks in {', '.join(read)}{note}")
    low = [line for name in _OCI_RUNTIMES for line in (host.run(name, "--version") or "").splitlines()[:1]]
    if low:
        yield ok(f"OCI runtimes: {'; '.join(low)}")


def registered(host: Host) -> Iterator[Finding]:
    """Check that the hook's JSON is where each runtime reads it, is well-formed, and names existing files."""
    callers: dict[str, list[str]] = {}
    for runtime in installed(host):
        read = read_by(runtime, host)
        if not read:
            continue
        ours = [f"{folder}/{HOOK_NAME}" for folder in read if host.tree.exists(f"{folder}/{HOOK_NAME}")]
        if runtime.house and not any(INJECTOR in name for name in other_plugins(host)):
            yield _without_injector(host, runtime)
        elif ours:
            callers.setdefault(ours[-1], []).append(runtime.name)
        elif host.manifest and runtime.name not in host.manifest.runtimes:
            yield ok(f"{runtime.name} does not call the hook; the hook was installed for other runtimes")
        else:
            finding = problem if host.manifest else warning
            yield finding(f"{runtime.name} does not call the hook", f"install it: {_INSTALL.format(runtime.name)}")
    for path, names_ in callers.items():
        yield from _registration(host, names_, path)
    for folder in sorted({folder for one in RUNTIMES.values() for folder in one.default}):
        for name in names(host.tree.real(folder)):
            if name.endswith(".json") and name != HOOK_NAME:
                wrong = hook_problems(host.tree.read(f"{folder}/{name}") or b"")
                if wrong:
                    yield warning(
                        f"{folder}/{name} of another program is invalid: {wrong[0]}",
                        "fix or remove it; CRI-O does not start with a malformed hook",
                    )


def _without_injector(host: Host, runtime: Runtime) -> Finding:
    """Check for a program that serves the containers of a runtime without OCI hooks."""
    text = f"{runtime.name} does not call OCI hooks"
    if SERVER and host.tree.exists(f"{UNITS}/{SERVER.name}"):
        return ok(f"{text}; {SERVER.serves} serves its containers (see {SERVER.check})")
    text += ": NRI's hook-injector plugin is not installed"
    if host.manifest and runtime.name not in host.manifest.runtimes:
        return ok(f"{text}, and the hook was not installed for {runtime.name}")
    remedy = f"install {SERVER.serves}: {_INSTALL.format(runtime.name)}" if SERVER else "install that plugin"
    return warning(text, remedy)


def _registration(host: Host, runtimes: list[str], path: str) -> Iterator[Finding]:
    who = " and ".join(runtimes)
    installed = [name for name in runtimes if host.manifest and name in host.manifest.runtimes]
    again = f"install again: {_INSTALL.format((installed or runtimes)[0])}"
    text = host.tree.read(path) or b""
    wrong = hook_problems(text)
    if wrong:
        yield problem(f"{path}: {'; '.join(wrong)}", f"{again}; CRI-O does not start before that")
        return
    command = json.loads(text)["hook"]["args"]
    missing = [word for word in command if word.startswith("/") and not host.tree.exists(word) and "\n" not in word]
    config = config_in(command)
    if config in missing and os.path.lexists(active_path(host.tree.real(config))):
        missing.remove(config)
    if missing:
        theirs = [word for word in missing if word != config and not word.startswith(CODE)]
        remedy = f"install the packages that provide {' and '.join(theirs)}" if theirs else again
        if host.manifest and host.manifest.python in theirs:
            remedy += ", or name another Python: `resctrl-hook install --python PATH`"
        gone = "does" if len(missing) == 1 else "do"
        yield problem(f"{path} names {' and '.join(missing)}, which {gone} not exist", remedy)
    elif compiled_path(config) != compiled_path(host.config):
        yield warning(
            f"{who} call{'s' * (len(runtimes) == 1)} the hook with {config}, but doctor checks {host.config}",
            f"resctrl-hook --config {config} doctor",
        )
    else:
        blind = [name for name in runtimes if looks_past(RUNTIMES[name], host.tree, os.path.dirname(path))]
        calling = [name for name in runtimes if name not in blind]
        if calling:
            yield ok(f"{' and '.join(calling)} call{'s' * (len(calling) == 1)} the hook through {path}")
        for name in blind:
            yield problem(
                LOOKS_PAST.format(name=name, folder=os.path.dirname(path)),
                f"{RUNTIMES[name].restart}; containers keep running",
            )


def config_in(command: list[str]) -> str:
    """Return the configuration that a hook's command names; empty for none."""
    return command[command.index(_OPTION) + 1] if _OPTION in command[:-1] else ""


def _modules(host: Host, folder: str, room: str = "") -> Iterator[str]:
    """Yield the modules of the node half and its packages, by their paths below its folder."""
    for name in names(host.tree.real(f"{folder}/{room}")):
        if name.endswith(".py"):
            yield room + name
        elif "." not in name and name != "__pycache__":
            yield from _modules(host, folder, f"{room}{name}/")


def code(host: Host) -> Iterator[Finding]:
    """Check that the installed node half is complete, of this version, and has bytecode for the host's Python."""
    if host.manifest is None:
        return
    again = "install again: `resctrl-hook install`"
    folder = named_folder(host.tree)
    if not folder or not host.tree.exists(f"{CODE}/{folder}"):
        yield problem(f"the installed files in {CODE} are incomplete", again)
        return
    from resctrl_hooks.core.install.payload import folder_name, payload  # noqa: PLC0415  # it reads the whole node half

    ours = payload(host.manifest.houses)
    if not host.manifest.complete:
        yield problem("an installation was interrupted", again)
    here = {name: host.tree.read(f"{CODE}/{folder}/{name}") or b"" for name in _modules(host, f"{CODE}/{folder}")}
    if folder_name(here) != folder:
        changed = sorted(name for name, data in ours.modules.items() if here.get(name) != data)
        yield problem(f"changed or missing in {CODE}/{folder}: {', '.join(changed)}", again)
    elif folder != ours.folder:
        yield warning(_differing(host.manifest.version, folder, ours.version, ours.folder), again)
    absent = missing(host.manifest, host.settings)
    if absent:
        yield problem(WITHOUT_CODE.format(", ".join(absent)), again)
    compiled = [name for name in names(host.tree.real(f"{CODE}/{folder}")) if name.startswith("compiled.")]
    python = host.manifest.python
    tag = host.run(python, "-I", "-S", "-c", "import sys; print(sys.implementation.cache_tag)")
    if tag is None and host.live:
        yield problem(f"cannot run {python}", "install Python 3.9 or later; until then no container is monitored")
    elif tag is not None and f"compiled.{tag}" not in compiled:
        yield warning(
            "no bytecode for this host's Python; hooks start slower",
            "systemctl restart resctrl-hooks-compile.service, or install again",
        )
    else:
        yield ok(f"version {host.manifest.version} is in {CODE}/{folder}")


def _differing(installed: str, folder: str, version: str, ours: str) -> str:
    """Return how the installed node half differs from this program's; two builds may have one version."""
    if installed != version:
        return f"version {installed} is installed, but this is version {version}"
    return f"another build of version {version} is installed: {CODE}/{folder}, but this program's is {ours}"


def read_by(runtime: Runtime, host: Host) -> tuple[str, ...]:
    """Return the hook directories that a runtime reads; empty if its configuration is unreadable."""
    try:
        return directories(runtime, host.tree.root)
    except (OSError, RuntimeConfigError):
        return ()


def installed(host: Host) -> list[Runtime]:
    """Return the runtimes of a host."""
    if host.live:
        return [runtime for runtime in RUNTIMES.values() if shutil.which(runtime.name)]
    named = host.manifest.runtimes if host.manifest else []
    return [one for one in RUNTIMES.values() if one.name in named or host.tree.exists(f"/usr/bin/{one.name}")]


CHECKS: Final = {
    "runtimes": Check(found, of_files=True),
    "hook": Check(registered, of_files=True),
    "code": Check(code, of_files=True),
}
