"""`install` and the history: on for a new Podman host, by option elsewhere, never by surprise."""

import json
from pathlib import Path

import pytest

from install.staged import CONFIG, given, install, uninstall
from resctrl_hooks.cli import install as command
from resctrl_hooks.install import systemd
from resctrl_hooks.install.paths import UNITS
from resctrl_hooks.install.payload import Payload
from resctrl_hooks.install.plan import Plan
from resctrl_hooks.install.tree import Tree
from resctrl_hooks.install.units import EXEC, GUARD, NRI

COMPILED = "/etc/resctrl-hooks/config.json"


def enabled(root: Path) -> tuple[bool, bool]:
    """Return whether the compiled settings enable the history, and whether the unit that writes it is installed."""
    settings = json.loads((root / COMPILED.lstrip("/")).read_text())
    return settings.get("history", {}).get("enabled", False), (root / UNITS.lstrip("/") / GUARD).exists()


@pytest.mark.parametrize(
    "options, on",
    [
        (["--runtime", "podman"], True),
        (["--runtime", "podman", "--no-history"], False),
        (["--runtime", "crio"], False),
        (["--runtime", "crio", "--history"], True),
        (["--runtime", "podman", "--runtime", "crio"], True),
    ],
)
def test_new_configuration_enables_the_history_for_podman_or_by_option(
    tmp_path: Path, options: list[str], on: bool
) -> None:
    install(tmp_path, *options)
    assert enabled(tmp_path) == (on, on)


def test_existing_configuration_stays_as_it_is(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "# mine\nfailurePolicy: fail\n")
    install(tmp_path, "--runtime", "podman")
    assert enabled(tmp_path) == (False, False)
    assert (tmp_path / CONFIG.lstrip("/")).read_text() == "# mine\nfailurePolicy: fail\n"


def test_option_adds_the_section_to_an_applied_configuration_and_keeps_its_comments(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "# mine\nfailurePolicy: fail\n")
    install(tmp_path, "--runtime", "crio")
    install(tmp_path, "--runtime", "crio", "--history")
    assert enabled(tmp_path) == (True, True)
    text = (tmp_path / CONFIG.lstrip("/")).read_text()
    assert text.startswith("# mine\nfailurePolicy: fail\n")
    assert json.loads((tmp_path / COMPILED.lstrip("/")).read_text())["failurePolicy"] == "fail"
    install(tmp_path, "--runtime", "crio", "--history")
    assert (tmp_path / CONFIG.lstrip("/")).read_text() == text


def test_section_that_exists_is_left_to_the_operator(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "history: {size: 64M}\n")
    install(tmp_path, "--runtime", "crio")
    output = install(tmp_path, "--runtime", "crio", "--history")
    assert enabled(tmp_path) == (False, False)
    assert "note: the history is not enabled" in str(getattr(output, "output", output))


def test_uninstall_removes_the_configuration_that_nobody_edited(tmp_path: Path) -> None:
    install(tmp_path, "--runtime", "crio")
    install(tmp_path, "--runtime", "crio", "--history")
    uninstall(tmp_path)
    assert not (tmp_path / CONFIG.lstrip("/")).exists()


@pytest.mark.parametrize("with_units", [True, False])
@pytest.mark.parametrize("service, told", [(GUARD, "guard run"), (EXEC, "watch"), (NRI, "")])
def test_host_without_systemd_is_told_to_run_the_resident_processes(
    monkeypatch: pytest.MonkeyPatch, service: str, told: str, *, with_units: bool
) -> None:
    monkeypatch.setattr(systemd, "is_running", lambda: False)
    monkeypatch.setattr(command, "_found", lambda _: [])
    todo = Plan(Payload("", "", {}), [], {}, "/etc/c.yaml", "python3", [], [service])
    first, *notes = command._notes(todo, Tree(""), with_units=with_units)
    assert "`resctrl-hook reconcile --watch 30`" in first
    assert [note.partition(" running")[0] for note in notes] == ([f"keep `resctrl-hook {told}`"] if told else [])
