"""The unit of the plugin."""

from core.install.staged import CONFIG
from core.install.test_units import Parsed, ours

from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.core.install.unit_files import resident
from resctrl_hooks.core.install.units import RECONCILE
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.nri.install.nri import NRI

__all__ = ("ours",)


def test_plugin_has_the_rights_of_reconcile_and_of_the_exec_watcher(ours: Parsed) -> None:
    service, theirs = ours[NRI]["Service"], ours[RECONCILE]["Service"]
    same = {key: value for key, value in theirs.items() if key.startswith(("Restrict", "Protect", "SystemCall", "Cap"))}
    same["RestrictAddressFamilies"] += " AF_NETLINK"
    same["CapabilityBoundingSet"] += " CAP_NET_ADMIN"
    assert same.items() <= service.items()
    assert service["ExecStart"].endswith(f"{LAUNCH} --config {CONFIG} nri")
    assert (service["NoNewPrivileges"], service["Type"], service["Restart"]) == ("yes", "notify", "always")
    assert float(service["WatchdogSec"]) > 10
    assert "PrivateDevices" not in service, "block I/O classes look at /dev"


def test_chosen_house_has_its_service_without_the_one_that_it_replaces() -> None:
    assert resident(Settings(), ["nri"]) == [NRI]
