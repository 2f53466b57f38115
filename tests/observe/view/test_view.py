"""The view as a mount: its files, read-only, at most half a second old."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from hosts.monitored import host_of_one_pod
from hosts.processes import wait_until

pytestmark = pytest.mark.fuse


def test_view_is_a_read_only_tree_with_a_folder_per_pod(tmp_path: Path) -> None:
    mount = tmp_path / "view"
    with host_of_one_pod(tmp_path) as (host, (_, group)):
        command = host.command("view", str(mount))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(lambda: os.path.ismount(mount), "it is mounted")
                assert sorted(os.listdir(mount)) == ["mon_data", "mon_groups"]
                seen = mount / "mon_groups" / group.name / "mon_data" / "mon_L3_00"
                assert (seen / "mbm_total_bytes").read_text() == "1000\n"
                assert (seen / "mbm_local_bytes").read_text() == "Unassigned\n"
                assert (mount / "mon_data/mon_L3_00/llc_occupancy").read_text() == "4096\n"
                assert (mount / "mon_groups" / group.name / "tasks").read_text() == ""
                with pytest.raises(OSError, match="Read-only file system"):
                    (mount / "mon_groups/new").mkdir()
                with pytest.raises(OSError, match="Read-only file system"):
                    (seen / "mbm_total_bytes").write_text("1")
                with pytest.raises(FileNotFoundError):
                    (mount / "gone").read_text()
                (group / "mon_data/mon_L3_00/mbm_total_bytes").write_text("1500\n")
                time.sleep(0.6)
                assert (seen / "mbm_total_bytes").read_text() == "1500\n"
                os.rename(host.resctrl, f"{host.resctrl}.away")
                time.sleep(0.6)
                with pytest.raises(OSError, match="Input/output error"):
                    (seen / "mbm_total_bytes").read_text()
            finally:
                process.terminate()
                _, told = process.communicate(timeout=300)
    assert "pods' totals are mounted" in told
    assert told.count("resctrl") >= 1
    assert not os.path.ismount(mount)


def test_view_without_resctrl_is_refused(tmp_path: Path) -> None:
    with host_of_one_pod(tmp_path) as (host, _):
        os.rename(host.resctrl, f"{host.resctrl}.away")
        result = host.run("view", str(tmp_path / "view"))
    assert result.exit_code == 1
    assert "resctrl" in result.output
    assert not (tmp_path / "view").exists()
