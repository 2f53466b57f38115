"""`install`, `uninstall`, `explain` and `rdt`: their output as golden texts.

`core/install` has the life of an installation; stand-ins are in place of what belongs to the running host.
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from conftest import Host, always, raising
from golden import Golden
from hosts.faults import failing
from hosts.installations import ship
from hosts.monitored import run
from hosts.transcript import Transcript

from resctrl_hooks.core.cli import explain as explain_module
from resctrl_hooks.core.cli import install, main, rdt, uninstall
from resctrl_hooks.core.config.problems import InvalidConfigError, Problem
from resctrl_hooks.core.explanation.model import Explanation, StepModel
from resctrl_hooks.core.install import systemd
from resctrl_hooks.core.install.directories import RuntimeConfigError
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.install.paths import HOOK_NAME
from resctrl_hooks.core.install.payload import Payload
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.unit_files import KEEP_RUNNING
from resctrl_hooks.core.install.units import EXEC, MOUNT
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.release import Released
from resctrl_hooks.core.rdt.report import ClassReport

__all__ = ("ship",)
SMALL = Payload("9", "node-000000000001", {"core/node/launch.py": b"\n", "a.py": b"12"})


def test_runtimes_are_found_and_others_that_read_the_folder_are_named(
    tmp_path: Path, ship: Callable[[Payload], None], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(SMALL)
    for name in ("bin/crio", "local/bin/podman"):
        (tmp_path / "usr" / name).parent.mkdir(parents=True)
        (tmp_path / "usr" / name).touch()
    monkeypatch.setattr(systemd, "runs", always(value=True))
    for words in ("--dry-run", "--runtime podman --dry-run"):
        golden(CliRunner().invoke(main, ["install", *words.split(), "--root", str(tmp_path)]).output, words)
    monkeypatch.setattr(install, "looks_past", lambda runtime, tree, folder: folder == "/b")
    paths = {"crio": [f"/a/{HOOK_NAME}", f"/b/{HOOK_NAME}", "/b/other"], "podman": ["/b/other"]}
    golden("\n".join(install._restarts(Plan(None, [], paths, "", "", []), Tree("/"))), "restarts")  # type: ignore[arg-type]


def test_host_without_units_has_to_be_reconciled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    install._print(Plan(SMALL, [], {}, "/c", "/p", []), live=True)
    assert "start " not in capsys.readouterr().out
    monkeypatch.setattr("shutil.which", lambda name: "/bin/crio" if name == "crio" else None)
    assert install._found(Tree("")) == ["crio"]
    monkeypatch.setattr(install, "_found", always([]))
    every: list[str] = list(KEEP_RUNNING)
    for with_units, runs, services in ((True, True, [EXEC]), (True, False, []), (True, False, [MOUNT, EXEC]),
                                       (True, False, every), (False, True, [])):  # fmt: skip
        monkeypatch.setattr(systemd, "is_running", always(runs))
        todo: Any = SimpleNamespace(files=[], registrations={}, config="/c.yaml", python="/p", services=services)
        found = install._notes(todo, Tree("/"), with_units=with_units)
        golden("\n".join(found), f"units {with_units}, systemd {runs}, {' '.join(services)}")


def test_failure_names_what_to_do_next(tmp_path: Path, ship: Callable[[Payload], None], golden: Golden) -> None:
    ship(SMALL)
    full = OSError(28, "No space left on device", "/f")
    invalid = InvalidConfigError([Problem("wrong", file="/c")])
    for module, name, words, errors in (
        (install, "plan", ["install", "--runtime", "crio"], (invalid, RuntimeConfigError("bad toml"), full)),
        (install, "install", ["install", "--runtime", "crio"], (full,)),
        (uninstall, "removed_paths", ["uninstall", "--dry-run"], (HookError("busy"), full)),
    ):
        for error in errors:
            with failing(module, name, error):
                done = CliRunner().invoke(main, [*words, "--root", str(tmp_path)])
            assert done.stdout == ""
            golden(f"{done.stderr}exit {done.exit_code}", f"{name}, {type(error).__name__}")


def test_installation_of_a_machine_config_is_left_to_it(tmp_path: Path) -> None:
    config = tmp_path / "etc/resctrl-hooks/config.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"format": 1, "managedBy": "machineconfig"}')
    said = "cannot change this installation: /etc/resctrl-hooks/config.json belongs to a MachineConfig"
    for named in ("", "--config /etc/resctrl-hooks/test.yaml", "--config /etc/other/config.yaml"):
        for words in ("install --runtime crio", "uninstall"):
            done = CliRunner().invoke(main, [*named.split(), *words.split(), "--root", str(tmp_path)])
            assert (done.exit_code, said in done.stderr) == (1, True), (named, words)


@pytest.fixture
def live(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the changes of the running host, which are only noted; it has an installation, and groups to release."""
    calls: list[str] = []

    def note(name: str) -> Any:
        def called(*_: Any, release: Any = lambda: None, **__: Any) -> None:
            calls.append(name)
            release()

        return called

    for name in ("unregister", "remove_hooks", "uninstall"):
        monkeypatch.setattr(uninstall, name, note(name))
    for name, answer in {
        "find_effective": SimpleNamespace(settings=host.context().settings), "leave_to_machine_config": None,
        "is_installed": True, "read_manifest": Manifest(runtimes=["crio", "podman"]),
        "release_everything": released(keys=["key"]), "removed_paths": [("/hook", "hook")],
    }.items():  # fmt: skip
        monkeypatch.setattr(uninstall, name, always(answer))
    monkeypatch.setattr(uninstall, "restore_values", lambda _, found: found.restored.append("MB of gold"))
    return calls


def released(**lists: list[str]) -> Released:
    made = Released()
    vars(made).update(lists)
    return made


@pytest.mark.parametrize("pods", [False, True], ids=["without records", "with records"])
def test_records_of_running_containers_stay_unless_they_are_to_be_released(
    live: list[str], host: Host, monkeypatch: pytest.MonkeyPatch, golden: Golden, *, pods: bool
) -> None:
    told = Transcript()

    def check(words: str, label: str = "") -> None:
        live.clear()
        done = CliRunner().invoke(main, ["uninstall", *words.split()])
        told.add(len(str(told).split("$")), f"{words} {label}: {live}", done.output, done.exit_code)

    if pods:
        (host.state / "pods/key").mkdir(parents=True)
    for words in ("", "--release-groups", "--runtime crio", "--runtime crio --runtime podman", "--hooks-only"):
        check(words)
        check(f"--dry-run {words}")
    monkeypatch.setattr(uninstall, "release_everything", always(released(problems=["one", "two"])))
    check("--release-groups", "with problems")
    check("--root /image --release-groups")
    monkeypatch.setattr(uninstall, "is_installed", always(value=False))
    check("", "without installation")
    monkeypatch.setattr(uninstall, "find_effective", raising(HookError("no settings")))
    check("", "without settings")
    golden(str(told))


def explanation(**more: Any) -> Explanation:
    values = {"stage": "createRuntime", "container": "c1", "status": "created", "pid": 5, "process": "lives"}
    return Explanation(**{**values, "settings": "the defaults", "outcome": "starts", **more})


def test_explanations_are_printed(
    capsys: pytest.CaptureFixture[str], host: Host, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    from resctrl_hooks.core.doctor.ungrouped import PodExplanation  # noqa: PLC0415  # what the command imports then

    steps = [
        StepModel("monitoring", "join", {}, "always", "/r/g", "exists"),
        StepModel("memory", "limit", {"a": 1}, "class\x1b"),
        StepModel("rdt", "skip", {}, "no class"),
        StepModel("oom", "score", {}, "why"),
    ]
    workload = {"key": "k", "keyOf": "pod", "pod": "web", "namespace": ""}
    stop = {"stage": "poststop", "status": "stopped"}
    cases: tuple[dict[str, Any], ...] = (
        {}, {"process": "gone"}, {**stop, "process": "none"}, {**stop, "status": "running"},
        {"workload": workload, "steps": steps, "notes": ["a note"]},
    )  # fmt: skip
    for number, more in enumerate(cases):
        explain_module._print(explanation(**more))
        golden(capsys.readouterr().out, f"state {number}")
    found = PodExplanation(namespace="shop", pod="web", key="k", reason="waiting", text="no RMID", next_command="list")
    monkeypatch.setattr("resctrl_hooks.core.doctor.ungrouped.explain_pod", always(found))
    golden(run(host, "explain", "web").output, "pod")
    assert json.loads(run(host, "explain", "web", "-o", "json").stdout)["items"][0]["next"] == "list"
    found.next_command = ""
    golden(run(host, "explain", "web").output, "pod without a next command")
    host.config.write_text("damaged")
    assert run(host, "explain", "web").exit_code == 2


def test_explain_of_a_pod_and_of_a_state_are_different_calls(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for option in ("--stage", "--bundle"):
        done = run(host, "explain", "web", option, "poststop")
        assert (done.exit_code, "are for a container state on stdin" in done.output) == (2, True)
    explain = Mock(return_value=explanation())
    monkeypatch.setattr(explain_module, "explain", explain)
    assert run(host, "explain", "--stage", "poststop", "--bundle", "/b", data="state").exit_code == 0
    assert (explain.call_args.args[0], explain.call_args.kwargs) == (b"state", {"stage": "poststop", "bundle": "/b"})
    assert json.loads(run(host, "explain", "-o", "json", data="x").stdout)["items"][0]["exitCode"] == 0
    assert explain.call_args.kwargs == {"stage": "", "bundle": ""}


# rdt


def report(name: str, state: Any, **more: Any) -> ClassReport:
    values = {"mode": "shareable", "tasks": 3, "schemata": {"MB": {"0": "100", "1": "50"}, "L3": {"0": "f"}}}
    return ClassReport.model_validate({**values, "name": name, "state": state, **more})


def test_classes_are_printed_with_result_and_status(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    def print_classes(reports: list[ClassReport], label: str, **more: bool) -> None:
        code = 0
        try:
            rdt._print(reports, "table", **more)
        except SystemExit as error:
            code = int(str(error.code))
        golden(f"{capsys.readouterr().out}exit {code}", label)

    changes, dry = {"changes": True}, {"changes": True, "dry_run": True}
    cases: list[tuple[str, dict[str, bool]]] = [
        ("as declared", {}), ("as declared, differs", {}), ("", {}), ("missing", changes), ("impossible", changes),
        *((states, dry) for states in ("missing", "missing, differs", "as declared", "impossible, missing")),
    ]  # fmt: skip
    for states, more in cases:
        reports = [report(f"gold{place}", state) for place, state in enumerate(filter(None, states.split(", ")))]
        print_classes(reports, f"{states}; {' '.join(more)}", **more)
    one = report(
        "gold", "as declared", units={"MB": "per cent", "L3": "masks"}, held={1: 100, 0: 90}, owner="the guard",
        declared={"MB": ["50%", "2GBps"], "L3": {"0": "f", "1": ["a", 5]}}, problems=["a problem"], notes=["a note"],
        planned=["MB:0=1"], done=["created"],
    )  # fmt: skip
    two = report("silver", "not declared", units={"MB": "per cent"}, declared={"MB": 50})
    print_classes([one, two], "with units, declarations and held values")
    print_classes([one], "with changes", changes=True)
