"""The table of messages: recorded sessions of real runtimes, and the numbers of fields that none of them has."""

from typing import Any

import pytest

from nri.sessions import MESSAGES, Sent
from resctrl_hooks.nri import messages
from resctrl_hooks.nri.protobuf import decode, encode

HEAD = 10  # of a ttrpc message


def table_name(sent: Sent) -> str:
    """Return the type of a message as our table names it: one for all events that are alike."""
    name: str = sent.said["type"]
    if name in messages.MESSAGES:
        return name
    if sent.said["ttrpc"] == "response":
        return "Empty"
    return "PodEvent" if "PodSandbox" in name else "ContainerEvent"


OPAQUE = object()
"""Fields that stay bytes, because they are not read."""


def as_said(value: Any) -> Any:
    """Return our decoded message in the capture's form: 64-bit numbers are strings there."""
    if isinstance(value, bytes):
        return OPAQUE
    if isinstance(value, dict):
        return {name: as_said(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_said(item) for item in value]
    return str(value)


ENUMS = {
    "CONTAINER_CREATED": "1",
    "CONTAINER_RUNNING": "3",
    "CONTAINER_STOPPED": "4",
    "RUN_POD_SANDBOX": "1",
    "STOP_POD_SANDBOX": "2",
    "REMOVE_POD_SANDBOX": "3",
    "POST_CREATE_CONTAINER": "5",
    "START_CONTAINER": "6",
    "POST_START_CONTAINER": "7",
    "POST_UPDATE_CONTAINER": "9",
    "REMOVE_CONTAINER": "11",
}


def as_numbers(value: Any) -> Any:
    """Return the capture's values in our form: enum names as numbers, everything as text."""
    if isinstance(value, dict):
        return {name: as_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_numbers(item) for item in value]
    return ENUMS.get(str(value), str(value))


def assert_said(ours: Any, said: Any) -> None:
    """Check the other decoder's values; some messages have only a few fields, and are marked as shortened."""
    if ours is OPAQUE or (isinstance(ours, list) and OPAQUE in ours):
        return
    if isinstance(said, dict):
        for name in said.keys() - {"shortened"}:
            if said[name] != "None":
                assert_said(ours[name], said[name])
    elif isinstance(said, list):
        assert len(ours) == len(said)
        for one, other in zip(ours, said, strict=True):
            assert_said(one, other)
    else:
        assert ours == said


@pytest.mark.parametrize("sent", MESSAGES, ids=str)
def test_real_message_decodes_as_in_reference_and_encodes_to_same_bytes(sent: Sent) -> None:
    envelope = "Request" if sent.said["ttrpc"] == "request" else "Response"
    outer = decode(envelope, sent.data[HEAD:])
    assert encode(envelope, outer) == sent.data[HEAD:]
    inner = decode(table_name(sent), outer.get("payload", b""))
    assert encode(table_name(sent), inner) == outer.get("payload", b"")
    assert_said(as_said(inner), as_numbers(sent.said["message"]))


def test_every_named_type_is_in_table() -> None:
    scalars = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64"}
    for fields in messages.MESSAGES.values():
        for declared in fields.values():
            *shape, kind, _ = declared.split()
            assert kind in scalars or kind in messages.MESSAGES
            assert shape in ([], ["repeated"], ["map"])


@pytest.mark.parametrize(
    "name, data, fields",
    [
        ("Status", b"\x08\x05\x12\x01x", {"code": 5, "message": "x"}),
        ("ConfigureRequest", b"\x0a\x01x", {"config": "x"}),
        ("SynchronizeRequest", b"\x18\x01", {"more": True}),
        ("SynchronizeResponse", b"\x10\x01", {"more": True}),
        ("LinuxContainer", b"\x32\x00\x5a\x00\x62\x00", {"io_priority": {}, "scheduler": {}, "rdt": {}}),
        ("LinuxMemory", b"\x0a\x02\x08\x07\x1a\x02\x08\x05", {"limit": {"value": 7}, "swap": {"value": 5}}),
        ("LinuxResources", b"\x22\x03\x0a\x01x", {"blockio_class": {"value": "x"}}),
        ("LinuxCPU", b"\x3a\x010", {"mems": "0"}),
        ("LinuxDevice", b"\x32\x02\x08\x02\x3a\x02\x08\x03", {"uid": {"value": 2}, "gid": {"value": 3}}),
        ("LinuxStart", b"\x12\x00\x1a\x00", {"devices": [b""], "resources": b""}),
        ("LinuxIOPriority", b"\x08\x02\x10\x04", {"class": 2, "priority": 4}),
        ("LinuxScheduler", b"\x08\x02\x10\x03\x18\x07", {"policy": 2, "nice": 3, "priority": 7}),
        ("LinuxRdt", b"\x0a\x03\x0a\x01x\x1a\x02\x08\x01",
         {"clos_id": {"value": "x"}, "enable_monitoring": {"value": True}}),
        ("LinuxContainerAdjustment", b"\x2a\x00\x52\x00\x62\x00",
         {"io_priority": {}, "scheduler": {}, "memory_policy": {}}),
        ("LinuxMemoryPolicy", b"\x08\x03\x12\x010\x1a\x01\x02", {"mode": 3, "nodes": "0", "flags": [2]}),
        ("ContainerUpdate", b"\x18\x01", {"ignore_failure": True}),
    ],
)  # fmt: skip
def test_fields_without_a_recording_have_the_numbers_of_the_protocol(
    name: str, data: bytes, fields: dict[str, Any]
) -> None:
    assert decode(name, data) == fields
    assert decode(name, encode(name, fields)) == fields


WHOLE = {"Pod": "PodSandbox", "Linux": "LinuxContainer", "StateChange": "StateChangeEvent"}


@pytest.mark.parametrize("name", [name for name in messages.MESSAGES if name.endswith(("Head", "Start"))])
def test_shortened_message_has_the_numbers_of_the_whole_one(name: str) -> None:
    short = name.removesuffix("Head").removesuffix("Start")
    whole = messages.MESSAGES[WHOLE.get(short, short)]
    for number, declared in messages.MESSAGES[name].items():
        assert declared.split()[-1] == whole[number].split()[-1]
