"""Which cpusets of specifications are this project's own."""

from conftest import Host

from resctrl_hooks.node.features.placement.specified import specified, write_specified


def test_recorded_specification_is_read_and_damage_ignored(host: Host) -> None:
    context = host.context()
    host.state.mkdir(parents=True, exist_ok=True)
    assert specified(context) == {}
    write_specified({"a": "0-3", "b": "5"}, context)
    assert specified(context) == {"a": "0-3", "b": "5"}
    (file,) = host.state.glob("placement.specified")
    for rubbish in ("[]", "{", ""):
        file.write_text(rubbish)
        assert specified(context) == {}
