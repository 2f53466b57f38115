"""Which cpusets of specifications are this project's own."""

import errno
import json

import pytest
from conftest import Host
from hosts.faults import failing

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.placement.node import specified as module
from resctrl_hooks.placement.node.specified import note, specified


def test_recorded_specification_is_read_and_damage_ignored(host: Host) -> None:
    context = host.context()
    host.state.mkdir(parents=True, exist_ok=True)
    context.ledger.prepare()
    assert specified(context) == {}
    note("a", {"cpus": "0-3"}, context)
    note("b", {"cpus": "5"}, context)
    assert specified(context) == {"a": "0-3", "b": "5"}
    (file,) = host.state.glob("placement.specified")
    for rubbish in ("[]", "{", ""):
        file.write_text(rubbish)
        assert specified(context) == {}


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_specifications_that_cannot_be_read_are_not_replaced(host: Host, number: int) -> None:
    context = host.context()
    context.ledger.prepare()
    note("a", {"cpus": "0-3"}, context)
    with failing(module, "read_file", OSError(number, "no answer", "/file")), pytest.raises(LedgerError):
        note("b", {"cpus": "5"}, context)
    (file,) = host.state.glob("placement.specified")
    assert json.loads(file.read_text()) == {"a": "0-3"}
