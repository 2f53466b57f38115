"""The configuration of an installation: the initial one, an existing one, and a section that is added to it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.install.staged import CONFIG, given
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.install.plan import mounted_otherwise
from resctrl_hooks.core.install.settings_files import FIRST, compiled_files, unapplied, with_sections
from resctrl_hooks.core.install.units import MOUNT
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.parts import Addition

FOLDER = CONFIG.rpartition("/")[0]
COMPILED, LAST = f"{FOLDER}/config.json", f"{FOLDER}/config.last.json"
JSON = "/etc/mine/settings.json"
SECTION = Addition("scheduling", b"\n# Of a house.\nscheduling:\n  enabled: true\n", (), "")


def applied(root: Path, yaml: str, **settings: Any) -> None:
    """Put a configuration and its newer compiled file below a root."""
    given(root, CONFIG, yaml)
    given(root, COMPILED, json.dumps({"format": 1, **settings}))
    os.utime(root / CONFIG.lstrip("/"), (1, 1))


@pytest.mark.parametrize("added", [[], [SECTION]])
def test_new_configuration_is_compiled_to_two_files(tmp_path: Path, added: list[Addition]) -> None:
    found = compiled_files(CONFIG, str(tmp_path), added)
    assert [*found] == [CONFIG, LAST, COMPILED], "the file that hooks read is last"
    assert found[CONFIG] == (FIRST + SECTION.text if added else FIRST)
    assert json.loads(found[COMPILED]).get("scheduling", {}).get("enabled", False) is bool(added)
    assert found[LAST] == found[COMPILED]


def test_existing_configuration_is_compiled_and_not_written(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "namespaces: [shop]\n")
    found = compiled_files(CONFIG, str(tmp_path), [SECTION])
    assert [*found] == [LAST, COMPILED]
    assert json.loads(found[COMPILED])["namespaces"] == ["shop"]
    given(tmp_path, CONFIG, "namespaces: 5\n")
    with pytest.raises(InvalidConfigError):
        compiled_files(CONFIG, str(tmp_path))


def test_compiled_file_stays(tmp_path: Path) -> None:
    given(tmp_path, COMPILED, '{"format": 1}')
    assert compiled_files(CONFIG, str(tmp_path)) == {}
    assert compiled_files(JSON, str(tmp_path)) == {JSON: b'{"format": 1}\n'}
    given(tmp_path, JSON, "{}")
    assert compiled_files(JSON, str(tmp_path)) == {}, "the first format had no number"


@pytest.mark.parametrize("config, compiled", [(CONFIG, COMPILED), (JSON, JSON)])
@pytest.mark.parametrize(
    "text, why",
    [
        ("[]", " is not a compiled configuration"),
        ('{"format": 2}', " is not a compiled configuration"),
        ("{", " is not a compiled configuration: "),
        ('{"namespaces": 3}', "namespaces"),
    ],
)
def test_compiled_file_that_hooks_cannot_read_is_refused(
    tmp_path: Path, config: str, compiled: str, text: str, why: str
) -> None:
    given(tmp_path, compiled, text)
    with pytest.raises(SettingsError, match=f"{tmp_path}{compiled}.*{why}"):
        compiled_files(config, str(tmp_path))


@pytest.mark.parametrize(
    "yaml, settings, found",
    [
        ("", {}, True),  # an empty file is a mapping too
        ("a: 1\n", {"scheduling": {"enabled": True}}, False),
        ("scheduling: {}\n", {"scheduling": {}}, None),
        ("scheduling: {enabled: false}\n", {"scheduling": {"enabled": False}}, None),
    ],
)
def test_section_is_left_to_the_operator_if_its_section_exists(
    tmp_path: Path, yaml: str, settings: dict[str, Any], found: bool | None
) -> None:
    applied(tmp_path, yaml, **settings)
    files = with_sections(CONFIG, [SECTION], str(tmp_path))
    assert (files if files is None else bool(files)) == found


def test_section_is_left_to_the_operator_without_an_applied_yaml_file(tmp_path: Path) -> None:
    assert with_sections(CONFIG, [SECTION], str(tmp_path)) is None
    given(tmp_path, JSON, "{}")
    assert with_sections(JSON, [SECTION], str(tmp_path)) is None
    given(tmp_path, CONFIG, "namespaces: []\n")
    assert with_sections(CONFIG, [SECTION], str(tmp_path)) is None, "it was never applied"
    applied(tmp_path, "namespaces: []\n")
    os.utime(tmp_path / COMPILED.lstrip("/"), (-10, -10))
    assert with_sections(CONFIG, [SECTION], str(tmp_path)) is None, "it was edited since"


@pytest.mark.parametrize(
    "yaml, compiled, number",
    [
        ("namespaces: 5\n", "{}", 2),
        ("namespaces: 5\ngroupPrefix: 3\n", "{}", 3),
        ("namespaces: []\n", "{}", 0),
        ("namespaces: 5\n", None, 0),
        (None, "{}", 0),
    ],
)
def test_invalid_configuration_beside_an_active_one_is_reported(
    tmp_path: Path, yaml: str | None, compiled: str | None, number: int
) -> None:
    for path, text in ((CONFIG, yaml), (COMPILED, compiled)):
        if text is not None:
            given(tmp_path, path, text)
    found = unapplied(CONFIG, str(tmp_path))
    assert len(found) == number
    if found:
        assert found[0].startswith("error: ")
        assert found[-1] == f"{COMPILED} stays active until {CONFIG} is fixed and applied"
    given(tmp_path, JSON, "{")
    assert unapplied(JSON, str(tmp_path)) == []


@pytest.mark.parametrize(
    "line, is_mounted",
    [
        ("resctrl /sys/fs/resctrl resctrl cdp 0 0", True),
        ("none /sys/fs/resctrl resctrl", True),
        ("# resctrl /sys/fs/resctrl resctrl cdp 0 0", False),
        ("#resctrl /sys/fs/resctrl resctrl cdp 0 0", False),
        ("resctrl /sys/fs/resctrl tmpfs resctrl", False),
        ("resctrl /x", False),
        ("", False),
    ],
)
def test_fstab_mounts_resctrl_by_a_line_of_its_type(tmp_path: Path, line: str, is_mounted: bool) -> None:
    assert mounted_otherwise(str(tmp_path), ours=False) is False
    given(tmp_path, "etc/fstab", f"/dev/sda1 / ext4 defaults 0 1\n\xff\n{line}\n")
    assert mounted_otherwise(str(tmp_path), ours=True) is is_mounted


@pytest.mark.parametrize("ours", [True, False])
def test_foreign_mount_unit_mounts_resctrl(tmp_path: Path, ours: bool) -> None:
    given(tmp_path, f"etc/systemd/system/{MOUNT}")
    assert mounted_otherwise(str(tmp_path), ours=ours) is not ours
