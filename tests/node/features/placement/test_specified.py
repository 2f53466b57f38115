"""Which cpusets of specifications are this project's own."""

from conftest import Host

from resctrl_hooks.node.features.placement.specified import specified, write_specified


def test_what_was_written_is_known_and_rubbish_is_nothing(host: Host) -> None:
    context = host.context()
    host.state.mkdir(parents=True, exist_ok=True)
    assert specified(context) == {}
    write_specified({"a": "0-3", "b": "5"}, context)
    assert specified(context) == {"a": "0-3", "b": "5"}
    (file,) = host.state.glob("placement.specified")
    for rubbish in ("[]", "{", ""):
        file.write_text(rubbish)
        assert specified(context) == {}
