import gc
import sys
from typing import Any

import pytest
from conftest import Host, standard_streams
from hosts.faults import Fail

from resctrl_hooks.core.node import main
from resctrl_hooks.core.node.hook import call as hook


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["hook", "more"], ["--config"], ["--config", "x"], ["-h"]])
def test_wrong_use_prints_usage(arguments: list[str]) -> None:
    with standard_streams(b"") as written:
        assert main.main(arguments) == main.WRONG_USE
    assert written().startswith("usage: ")


@pytest.mark.parametrize(
    "command, module, function",
    [
        ("reconcile", "core.node.reconcile.command", "reconcile_command"),
        ("watch", "core.node.watch.command", "watch_command"),
        pytest.param("guard", "observe.node.sampler.command", "guard_command", marks=pytest.mark.houses("observe")),
        ("release", "core.node.reconcile.release", "release_command"),
        ("compile", "core.node.bytecode", "compile_command"),
        pytest.param("nri", "nri.node.command", "nri_command", marks=pytest.mark.houses("nri")),
    ],
)
def test_command_has_its_own_module(monkeypatch: pytest.MonkeyPatch, command: str, module: str, function: str) -> None:
    called: list[tuple[Any, ...]] = []

    def record(*given: Any) -> int:
        called.append((gc.isenabled(), *given))
        return 7

    monkeypatch.setattr(f"resctrl_hooks.{module}.{function}", record)
    gc.disable()  # as `launch` does
    try:
        assert main.main(["--config", "x", command, "more"]) == 7
    finally:
        gc.enable()
    assert called == [(False, ["more"]) if command == "compile" else (True, "x", ["more"])]


@pytest.mark.houses("nri")
def test_command_whose_modules_are_not_installed_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resctrl_hooks.nri", None)  # then its import raises what a missing one does
    monkeypatch.delitem(sys.modules, "resctrl_hooks.nri.node.command", raising=False)
    monkeypatch.delitem(sys.modules, "resctrl_hooks.nri.node", raising=False)
    with standard_streams(b"") as written:
        assert main.main(["nri"]) == 1
    assert written().startswith("resctrl-hook: the modules of `nri` are not installed here; install again")
    assert written().count("\n") == 1


def test_missing_module_of_python_is_not_taken_for_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '_sqlite3' for {name}", name="_sqlite3")

    monkeypatch.setattr(main, "load", broken)
    with pytest.raises(ModuleNotFoundError, match="_sqlite3"):
        main.main(["reconcile"])


def test_early_fault_is_reported(host: Host, fail: Fail) -> None:
    fail(hook, "in_initial_user_namespace", AssertionError("a bug"))
    assert host.call({}, "hook") == (0, "resctrl-hook: internal error in resctrl-hook: AssertionError: a bug in "
                                     + host.log.read_text().partition("a bug in ")[2].partition("; please")[0]
                                     + "; please report it\n", host.log.read_text())  # fmt: skip
    host.configure(failurePolicy="fail")
    assert host.call({}, "hook").code == 79
    assert host.call({}, "poststop").code == 0
