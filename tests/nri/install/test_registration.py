"""The registration of the hook with containerd."""

from pathlib import Path

from core.install.staged import HOOKS, given
from core.install.test_plan import Planned, paths, planned

from resctrl_hooks.core.install.paths import ADMIN_HOOKS, HOOK_NAME, UNITS
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
