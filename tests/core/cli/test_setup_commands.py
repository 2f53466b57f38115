"""`install`, `uninstall`, `explain` and `rdt` with stand-ins for the called parts."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from conftest import Host, always, raising
from golden import Golden
from hosts.monitored import run

from resctrl_hooks.core.cli import explain as explain_module
from resctrl_hooks.core.cli import install, main, rdt, uninstall
from resctrl_hooks.core.config.problems import InvalidConfigError, Problem
from resctrl_hooks.core.explanation.model import Explanation, StepModel
from resctrl_hooks.core.install import systemd
from resctrl_hooks.core.install.directories import RuntimeConfigError
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.install.paths import HOOK_NAME, UNITS
from resctrl_hooks.core.install.plan import Plan, PlannedFile
from resctrl_hooks.core.install.roles import FEATURES, HOOK, LAUNCHER, LINK, UNIT
from resctrl_hooks.core.install.tree import Tree
from resctrl_hooks.core.install.unit_files import KEEP_RUNNING
from resctrl_hooks.core.install.units import EXEC, MOUNT
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.reconcile.release import Released
from resctrl_hooks.core.rdt.report import ClassReport

NRI = "resctrl-hooks-nri.service"

# install


def manifest(*paths: str, roles: tuple[str, ...] = (), **more: Any) -> Manifest:
    made = Manifest(**more)
    made.files.update(dict(zip(paths, roles or ("module",) * len(paths), strict=True)))
    return made


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the options with which an installation is planned; it installs nothing."""
    given: dict[str, Any] = {}

    def plan(runtimes: tuple[str, ...], config: str, **options: Any) -> Any:
        given.update(options, runtimes=runtimes, config=config)
        payload = SimpleNamespace(version="1.2", folder="f")
        return Plan(payload, [], {name: [] for name in runtimes}, config, options["python"], ["planned"])  # type: ignore[arg-type]

    monkeypatch.setattr(install, "plan", plan)
    monkeypatch.setattr(install, "install", lambda *_, **__: None)
    monkeypatch.setattr(install, "read_manifest", always(None))
    return given


def installed(*words: str) -> Any:
    return CliRunner().invoke(main, ["install", *words])


@pytest.mark.parametrize(
    "files, roles, expected",
    [
        ((), (), (False, False, [], False)),
        ((f"{UNITS}/x",), (UNIT,), (True, False, [], False)),
        ((f"{UNITS}/{MOUNT}",), (UNIT,), (True, True, [], False)),
        pytest.param((f"{UNITS}/{NRI}",), (UNIT,), (True, False, ["nri"], False), marks=pytest.mark.houses("nri")),
        (("/features",), (FEATURES,), (False, False, [], True)),
    ],
)
def test_next_installation_is_as_before(
    planned: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    files: tuple[str, ...],
    roles: tuple[str, ...],
    expected: tuple[object, ...],
) -> None:
    before = manifest(*files, roles=roles)
    before.runtimes[:] = ["podman"]
    before.python, before.config = "/opt/python", "/earlier.yaml"
    monkeypatch.setattr(install, "read_manifest", always(before))
    names = ("with_units", "earlier_units", "chosen", "nfd")
    assert installed("--root", str(tmp_path), "--runtime", "crio").exit_code == 0
    assert tuple(planned[name] for name in names) == expected
    assert (planned["runtimes"], planned["python"], planned["config"]) == (
        ("crio", "podman"),
        "/opt/python",
        "/earlier.yaml",
    )
    words = ("--python", "/p", "--no-units", "--nfd")
    assert installed("--root", str(tmp_path), *words).exit_code == 0
    assert tuple(planned[name] for name in names) == (False, expected[1], expected[2], True)
    assert planned["python"] == "/p"
    assert installed("--root", str(tmp_path), "--units", "--no-nfd").exit_code == 0
    assert tuple(planned[name] for name in names) == (True, expected[1], expected[2], False)


def test_installation_needs_a_runtime_and_absolute_paths(planned: dict[str, Any], tmp_path: Path) -> None:
    assert "no container runtime found" in installed("--root", str(tmp_path)).stderr
    for folder in ("usr/bin", "usr/local/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/bin/crio").touch()
    (tmp_path / "usr/local/bin/podman").touch()
    assert installed("--root", str(tmp_path)).exit_code == 0
    assert set(planned["runtimes"]) == {"crio", "podman"}
    done = installed("--root", str(tmp_path), "--python", "python3")
    assert (done.exit_code, "--python must be an absolute path on the host: python3" in done.stderr) == (2, True)
    done = CliRunner().invoke(main, ["--config", "a.yaml", "install", "--root", str(tmp_path)])
    assert (done.exit_code, "--config must be an absolute path on the host: a.yaml" in done.stderr) == (2, True)


@pytest.mark.parametrize("more", [pytest.param(["containerd"], marks=pytest.mark.houses("nri"))])
def test_other_runtimes_that_read_the_folder_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: list[str]
) -> None:
    monkeypatch.setattr(install, "_found", always(["crio", "podman", *more]))
    monkeypatch.setattr(install, "directories", lambda runtime, root: ["/b", "/a"])
    files = [PlannedFile(f"/{folder}/{HOOK_NAME}", b"", HOOK) for folder in ("b", "a", "c")]
    todo = Plan(None, files, {"crio": []}, "/c.yaml", "/p", [])  # type: ignore[arg-type]
    found = list(install._notes(todo, Tree(str(tmp_path)), with_units=True))
    assert [one.partition(",")[0] for one in found] == ["podman also reads /a", "podman also reads /b"]


def test_runtime_that_has_not_looked_there_needs_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "looks_past", lambda runtime, tree, folder: folder == "/b")
    paths = {"crio": [f"/a/{HOOK_NAME}", f"/b/{HOOK_NAME}", "/b/other"], "podman": ["/b/other"]}
    todo = Plan(None, [], paths, "", "", [])  # type: ignore[arg-type]
    (line,) = install._restarts(todo, Tree("/"))
    assert "/b" in line
    assert "crio" in line


FULL = OSError(28, "No space left on device", "/f")
INVALID = InvalidConfigError([Problem("wrong", file="/c")])
TOML = RuntimeConfigError("bad toml")


def test_failure_names_what_to_do_next(
    planned: dict[str, Any], removed: list[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr("os.geteuid", always(0))
    for module, name, words, errors in (
        (install, "plan", ["install", "--runtime", "crio"], (INVALID, TOML, FULL)),
        (install, "install", ["install", "--runtime", "crio"], (FULL,)),
        (uninstall, "uninstall", ["uninstall"], (HookError("busy"), FULL)),
    ):
        for error in errors:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(module, name, raising(error))
                done = CliRunner().invoke(main, words)
            assert done.stdout == ""
            golden(f"{done.stderr}exit {done.exit_code}", f"{name}, {type(error).__name__}")


def test_plan_is_printed_in_the_order_of_writing(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    files = [
        PlannedFile("/link", b"/target", LINK),
        PlannedFile("/launch", b"12345", LAUNCHER, 0o755),
        PlannedFile("/unit", b"123", UNIT),
        PlannedFile("/hook", b"1", HOOK),
    ]
    todo = Plan(SimpleNamespace(folder="f"), files, {}, "/c", "/p", ["remark"])  # type: ignore[arg-type]
    for label, plan, live in (("here", todo, True), ("image", todo, False),
                              ("without units", todo._replace(files=files[:2]), True)):  # fmt: skip
        install._print(plan, live=live)
        golden(capsys.readouterr().out, label)


def test_host_without_units_has_to_be_reconciled(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(install, "_found", always([]))
    every: list[str] = list(KEEP_RUNNING)
    for with_units, runs, services in ((True, True, [EXEC]), (True, False, []), (True, False, [MOUNT, EXEC]),
                                       (True, False, every), (False, True, [])):  # fmt: skip
        monkeypatch.setattr(systemd, "is_running", always(runs))
        todo: Any = SimpleNamespace(files=[], registrations={}, config="/c.yaml", python="/p", services=services)
        found = install._notes(todo, Tree("/"), with_units=with_units)
        golden("\n".join(found), f"units {with_units}, systemd {runs}, {' '.join(services)}")


# uninstall


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []

    def note(name: str) -> Any:
        def called(*_: Any, release: Any = None, **__: Any) -> None:
            calls.append(name)
            if release:
                release()

        return called

    for name in ("unregister", "remove_hooks", "uninstall"):
        monkeypatch.setattr(uninstall, name, note(name))
    monkeypatch.setattr(uninstall, "_end_records", lambda _, release: calls.append(f"records {release}"))
    monkeypatch.setattr(uninstall, "find_effective", always(SimpleNamespace(settings="settings")))
    monkeypatch.setattr(uninstall, "leave_to_machine_config", always(None))
    monkeypatch.setattr(uninstall, "is_installed", always(value=True))
    before = manifest()
    before.runtimes[:] = ["crio", "podman"]
    monkeypatch.setattr(uninstall, "read_manifest", always(before))
    return calls


def test_dry_run_says_whether_records_stay(
    removed: list[str], host: Host, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    (host.state / "pods/key").mkdir(parents=True)
    monkeypatch.setattr(uninstall, "find_effective", always(SimpleNamespace(settings=host.context().settings)))
    monkeypatch.setattr(uninstall, "removed_paths", always([("/hook", "hook")]))
    for words in ("", "--release-groups", "--hooks-only"):
        done = CliRunner().invoke(main, ["uninstall", "--dry-run", *words.split()])
        assert (done.exit_code, removed) == (0, [])
        golden(done.output, words)


@pytest.mark.parametrize("named", ["", "/etc/resctrl-hooks/test.yaml", "/etc/other/config.yaml"])
@pytest.mark.parametrize("word", ["install --runtime crio", "uninstall"])
def test_installation_of_a_machine_config_is_left_to_it(
    planned: dict[str, Any], tmp_path: Path, word: str, named: str
) -> None:
    config = tmp_path / "etc/resctrl-hooks/config.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"format": 1, "managedBy": "machineconfig"}')
    done = CliRunner().invoke(main, [*(["--config", named] if named else []), *word.split(), "--root", str(tmp_path)])
    assert done.exit_code == 1
    assert "cannot change this installation: /etc/resctrl-hooks/config.json belongs to a MachineConfig" in done.stderr


@pytest.mark.parametrize(
    "words, calls, said",
    [
        ([], ["uninstall", "records False"], "uninstalled\n"),
        (["--release-groups"], ["uninstall", "records True"], "uninstalled\n"),
        (["--root", "/image"], ["uninstall"], "uninstalled\n"),
        (["--runtime", "crio"], ["unregister"], ""),
        (["--runtime", "crio", "--runtime", "podman"], ["uninstall", "records False"], "uninstalled\n"),
        (["--hooks-only"], ["remove_hooks"], ""),
    ],
)
def test_uninstall_removes_what_is_asked(removed: list[str], words: list[str], calls: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["uninstall", *words])
    assert (done.exit_code, removed, done.stdout) == (0, calls, said), done.output


def test_uninstall_without_installation_ends_the_records(removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "is_installed", always(value=False))
    done = CliRunner().invoke(main, ["uninstall"])
    assert (removed, done.stdout) == (["records False"], "resctrl-hooks is not installed below /\n")
    removed.clear()

    monkeypatch.setattr(uninstall, "find_effective", raising(HookError("no settings")))
    done = CliRunner().invoke(main, ["uninstall"])
    assert removed == []
    assert done.stderr == "warning: no settings; groups and records are kept\n"
    done = CliRunner().invoke(main, ["uninstall", "--root", "/image", "--release-groups"])
    assert done.exit_code == 2


@pytest.mark.parametrize("release, pods, stays", [(False, True, True), (False, False, False), (True, True, False)])
def test_records_of_running_containers_stay(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, release: bool, pods: bool,
    stays: bool,
) -> None:  # fmt: skip
    context = host.context()
    if pods:
        (host.state / "pods/key").mkdir(parents=True)
    done = Released()
    done.keys[:], done.restored[:] = (["key"], []) if not stays else ([], ["MB of gold"])
    monkeypatch.setattr(uninstall, "release_everything", always(done))
    monkeypatch.setattr(uninstall, "restore_values", lambda _, found: found.restored.append("MB of gold"))
    uninstall._end_records(context.settings, release=release)
    kept = f"restored MB of gold\nthe groups of running containers and {context.settings.state_dir} are kept\n"
    assert capsys.readouterr().out == (kept if stays else "released key\n")
    done.problems[:] = ["one", "two"]
    if not stays:
        with pytest.raises(click.ClickException, match="one; two; fix it and uninstall again"):
            uninstall._end_records(context.settings, release=release)


# explain


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
    given: list[Any] = []

    def explain(data: bytes, *_: Any, **more: Any) -> Explanation:
        given[:] = [data, more]
        return explanation()

    monkeypatch.setattr(explain_module, "explain", explain)
    assert run(host, "explain", "--stage", "poststop", "--bundle", "/b", data="state").exit_code == 0
    assert given == [b"state", {"stage": "poststop", "bundle": "/b"}]
    assert json.loads(run(host, "explain", "-o", "json", data="x").stdout)["items"][0]["exitCode"] == 0
    assert given[1] == {"stage": "", "bundle": ""}


# rdt


def report(name: str, state: Any, **more: Any) -> ClassReport:
    values = {"mode": "shareable", "tasks": 3, "schemata": {"MB": {"0": "100", "1": "50"}, "L3": {"0": "f"}}}
    return ClassReport.model_validate({**values, "name": name, "state": state, **more})


def test_classes_are_printed_with_result_and_status(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    changes, dry = {"changes": True}, {"changes": True, "dry_run": True}
    cases: list[tuple[str, dict[str, bool]]] = [
        ("as declared", {}), ("as declared, differs", {}), ("", {}), ("missing", changes), ("impossible", changes),
        *((states, dry) for states in ("missing", "missing, differs", "as declared", "impossible, missing")),
    ]  # fmt: skip
    for states, more in cases:
        reports = [report(f"gold{place}", state) for place, state in enumerate(filter(None, states.split(", ")))]
        golden(printed(capsys, reports, **more), f"{states}; {' '.join(more)}")
    one = report(
        "gold",
        "as declared",
        units={"MB": "per cent", "L3": "masks"},
        declared={"MB": ["50%", "2GBps"], "L3": {"0": "f", "1": ["a", 5]}},
        held={1: 100, 0: 90},
        owner="the guard",
        problems=["a problem"],
        notes=["a note"],
        planned=["MB:0=1"],
        done=["created"],
    )
    two = report("silver", "not declared", units={"MB": "per cent"}, declared={"MB": 50})
    golden(printed(capsys, [one, two]), "with units, declarations and held values")
    golden(printed(capsys, [one], changes=True), "with changes")


def printed(capsys: pytest.CaptureFixture[str], reports: list[ClassReport], **more: bool) -> str:
    code = 0
    try:
        rdt._print(reports, "table", **more)
    except SystemExit as error:
        code = int(str(error.code))
    return f"{capsys.readouterr().out}exit {code}"
