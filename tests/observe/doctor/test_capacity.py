"""doctor on the capacity of memory domains."""

import json
from pathlib import Path

from golden import Golden
from hosts.counter_tree import say_paths
from hosts.monitored import plain_host
from hosts.patients import lines

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.observe.doctor.capacity import capacity
from resctrl_hooks.observe.node.capacity.record import NAME


def test_findings_on_the_capacity_of_each_memory_domain(tmp_path: Path, golden: Golden) -> None:
    values = {"sysPath": str(tmp_path / "sys"), "monitoring": {"capacity": {"1": 9e9, "2": 1e9}}}
    with plain_host(tmp_path, **values) as host:
        host.context.ledger.prepare()
        say_paths(host.resctrl, {f"mon_L3_0{domain}/mbm_total_bytes": 0 for domain in range(5)})
        record = {"tables": {"4": 5e9}, "source": "smbios", "seen": {"0": 3e9, "1": 3e9, "2": 3e9}}
        Path(host.context.settings.state_dir, NAME).write_text(json.dumps(record))
        golden(lines(capacity(Host(str(host.config)))))
