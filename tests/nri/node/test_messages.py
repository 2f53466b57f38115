"""The table of messages: recorded sessions of real runtimes, and the numbers of fields that none of them has."""

from typing import Any

import pytest

from nri.node.sessions import MESSAGES, Sent
from resctrl_hooks.nri.node import messages
from resctrl_hooks.nri.node.protobuf import decode, encode

HEAD = 10  # of a ttrpc message
NOTHING = "SynchronizeResponse"
"""A type for messages without fields."""


def table_name(sent: Sent) -> str:
    """Return the type of a message as our table names it: one for all events that are alike."""
    name: str = sent.said["type"]
    if name in messages.MESSAGES:
        return name
    if sent.said["ttrpc"] == "response":
        return NOTHING
    return "PodEvent" if "PodSandbox" in name else "ContainerEvent"


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


def assert_said(kind: str, ours: Any, said: Any) -> None:
    """Check a value against the other decoder's: texts for 64-bit numbers and enums; shortened messages lack fields."""
    if isinstance(ours, list):
        assert len(ours) == len(said)
        for one, other in zip(ours, said, strict=True):
            assert_said(kind, one, other)
    elif kind in messages.MESSAGES:
        read = decode(kind, ours) if isinstance(ours, bytes) else ours
        for declared in messages.MESSAGES[kind].values():
            *shape, of, name = declared.split()
            if name in said and said[name] != "None":
                assert_said("map" if shape == ["map"] else of, read[name], said[name])
    elif kind == "map":
        assert ours == said
    elif kind != "bytes":
        assert str(ours) == ENUMS.get(str(said), str(said))


@pytest.mark.parametrize("sent", MESSAGES, ids=str)
def test_real_message_decodes_as_in_reference_and_ours_encodes_to_same_bytes(sent: Sent) -> None:
    envelope = "Request" if sent.said["ttrpc"] == "request" else "Response"
    outer = decode(envelope, sent.data[HEAD:])
    kind, payload = table_name(sent), outer.get("payload", b"")
    inner = decode(kind, payload)
    assert_said(kind, inner, sent.said["message"])
    assert decode(kind, encode(kind, inner)) == inner
    if not sent.from_runtime:
        assert (encode(envelope, outer), encode(kind, inner)) == (sent.data[HEAD:], payload)


def test_every_named_type_is_in_table() -> None:
    scalars = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64"}
    for fields in messages.MESSAGES.values():
        for declared in fields.values():
            *shape, kind, _ = declared.split()
            assert kind in scalars or kind in messages.MESSAGES
            assert shape in ([], ["repeated"], ["map"], ["lazy"])


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
        ("LinuxContainer", b"\x12\x00\x1a\x00", {"devices": [b""], "resources": b""}),
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
