"""The registration of the hook with containerd."""

from pathlib import Path

import pytest
from core.install.staged import HOOKS, given
from core.install.test_plan import Planned, check_units, paths, planned

from resctrl_hooks.core.install.paths import ADMIN_HOOKS, HOOK_NAME, LAUNCH, UNITS
from resctrl_hooks.core.install.roles import DROP_IN
from resctrl_hooks.nri.install.nri import DROP_IN as CONTAINERD_DROP_IN
from resctrl_hooks.nri.install.nri import NRI

__all__ = ("planned",)


def test_containerd_is_registered_by_its_drop_in_and_the_plugins_unit(planned: Planned, tmp_path: Path) -> None:
    given(tmp_path, "etc/containerd/config.toml", "version = 2\n")
    found = planned("crio", "containerd")
    hook = f"{ADMIN_HOOKS}/{HOOK_NAME}"
    assert found.registrations == {"crio": [HOOKS], "containerd": [hook, CONTAINERD_DROP_IN, f"{UNITS}/{NRI}"]}
    assert paths(found, DROP_IN) == [CONTAINERD_DROP_IN]
    assert len(found.notes) == 2
    (text,) = (file.data for file in found.files if file.path == CONTAINERD_DROP_IN)
    assert b"disable = false" in text


@pytest.mark.parametrize("runtime, options", [("crio", {"chosen": ["nri"]}), ("containerd", {})])
def test_plugin_is_the_only_resident_unit(planned: Planned, runtime: str, options: dict[str, list[str]]) -> None:
    check_units(planned(runtime, **options), {NRI})


def test_installation_for_containerd_without_units_has_a_note(planned: Planned) -> None:
    found = planned("containerd", with_units=False)
    assert found.notes == [f"without units nothing starts the NRI plugin, which serves containerd: `{LAUNCH} nri` does"]
    assert found.registrations == {"containerd": [f"{ADMIN_HOOKS}/{HOOK_NAME}"]}
