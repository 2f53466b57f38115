"""A PCI device 8086:09a7 (Intel OOBMSM) for QEMU's vfio-user-pci: energy and performance events by RMID of one package.

    oobmsm.py SOCKET FILE PACKAGE PERF_RMIDS

It waits for QEMU at SOCKET and serves until QEMU ends. FILE is the memory accesses that rdt.c counts (share=), u64 [L3
domain][4096 RMIDs]; L3 domain N is package N. An RMID gets one joule per million accesses, spread over the energy
aggregators, and has no valid counter before its first. PERF_RMIDS is for how many RMIDs the device says that it counts
performance events, which are multiples of the accesses: 1, 2, ... 7.

The kernel finds the device with its own drivers: intel_vsec (DVSEC capabilities), intel_vsec_tpmi (the package's
number), pmt_discovery (features and their RMIDs), pmt_telemetry (aggregators by GUID), and intel_aet at the first mount
of resctrl. Counters lie as on Clearwater Forest: word RMID * EVENTS + EVENT of an aggregator, valid with bit 63; energy
(J) and activity (F) have 18 bits of fraction. Sources: Linux 7.2, drivers/platform/x86/intel/{vsec,pmt} and
arch/x86/kernel/cpu/resctrl/intel_aet.c; the vfio-user protocol, QEMU docs/interop/vfio-user.rst.
"""

import contextlib
import mmap
import os
import socket
import struct
import sys

ENERGY, PERF = 0x26696143, 0x26557651  # the GUIDs, with 2 and 7 events
RMIDS_OF_LAYOUT, AGGREGATORS = 576, 2  # the counters' layout is fixed, whatever the device says that it tracks
VALID = 1 << 63
FRACTION = 1 << 18
CONFIG_REGION = 7
DOMAIN_RMIDS = 4096

DISCOVERY, TELEMETRY, TPMI = 0x1000, 0x2000, 0x3000  # where things lie in BAR 0
MAILBOX, INFO = TPMI + 0x400, TPMI + 0x800
COUNTERS, STEP = 0x10000, 0x10000

VERSION = b'{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,"pgsizes":4096,"max_dma_maps":65535}}\0'
REPLY, FAILED, NO_REPLY = 0x1, 0x21, 0x10
EOPNOTSUPP = 95


class Device:
    def __init__(self, ledger: str, package: int, perf_rmids: int) -> None:
        self.package, self._rmids = package, (RMIDS_OF_LAYOUT, perf_rmids)
        self._places = [(ENERGY, 2)] * AGGREGATORS + [(PERF, 7)]  # an aggregator each STEP
        self.size = 1 << (COUNTERS + STEP * len(self._places) - 1).bit_length()
        self._bar, self._config = bytearray(self.size), bytearray(4096)
        with open(ledger, "rb") as file:
            shared = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("Q")
        self._ledger = shared[self.package * DOMAIN_RMIDS :][:DOMAIN_RMIDS]
        self._lay_out()

    def _words(self, at: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}I", self._bar, at, *values)

    def _quads(self, at: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}Q", self._bar, at, *values)

    def _lay_out(self) -> None:
        """Write the tables that the drivers read: features, aggregators, TPMI, PCI configuration."""
        for i, (feature, rmids, guid) in enumerate(zip((0xB, 0x3), self._rmids, (ENERGY, PERF), strict=True)):
            entry, table = DISCOVERY + 16 * i, DISCOVERY + 0x100 + 0x40 * i
            self._words(entry, 3 | 6 << 12, feature, table - entry - 16)  # local: the table is this far behind
            self._words(table, 4 | 1 << 8, 1 | 1 << 8 | 7 << 18, rmids, 1 << 21, 0, guid)  # 4 words, one GUID
        for i, (guid, events) in enumerate(self._places):
            size = (RMIDS_OF_LAYOUT * events + 3) * 8
            self._words(TELEMETRY + 16 * i, 2 | size // 4 << 12, guid, COUNTERS + STEP * i)  # in a BAR
        self._quads(TPMI, 0x80 | 1 << 8 | 8 << 16 | 1 << 32, 0x81 | 1 << 8 | 8 << 16 | 2 << 32)  # mailbox, info: KiB
        self._quads(INFO, 2, self.package << 16)  # version 0.2
        struct.pack_into("<HHIBBBB", self._config, 0, 0x8086, 0x09A7, 0x10 << 16, 0, 0, 0x80, 0x11)
        struct.pack_into("<H", self._config, 0x2C, 0x8086)
        self._config[0x34] = 0x40
        struct.pack_into("<BBH", self._config, 0x40, 0x10, 0, 2 | 9 << 4)  # PCIe, integrated endpoint
        capabilities = [(12, 2, 4, DISCOVERY), (66, 2, 2, TPMI), (2, len(self._places), 4, TELEMETRY)]
        for i, (kind, entries, size, table) in enumerate(capabilities):  # Intel's DVSEC
            at = 0x100 + 0x10 * i
            after = at + 0x10 if i + 1 < len(capabilities) else 0
            head = (0x23 | 1 << 16 | after << 20, 0x8086 | 1 << 16 | 0x10 << 20)
            struct.pack_into("<IIHBBI", self._config, at, *head, kind, entries, size, table)

    def _counter(self, aggregator: int, rmid: int, event: int) -> int:
        guid, _ = self._places[aggregator]
        count = self._ledger[rmid]
        if not count:
            return 0
        if guid == PERF:
            return VALID | count * (event + 1)
        fraction = count * FRACTION // (1000000 if event == 0 else 4000000)
        share, rest = divmod(fraction, AGGREGATORS)
        return VALID | share + (rest if aggregator == 0 else 0)

    def read(self, region: int, at: int, length: int) -> bytes:
        """Return bytes of a region."""
        if region == CONFIG_REGION:
            return bytes(self._config[at : at + length])
        aggregator, rest = divmod(at - COUNTERS, STEP)
        if length == 8 and 0 <= aggregator < len(self._places):
            rmid, event = divmod(rest // 8, self._places[aggregator][1])
            if rmid < RMIDS_OF_LAYOUT:
                return struct.pack("<Q", self._counter(aggregator, rmid, event))
        return bytes(self._bar[at : at + length])

    def write(self, region: int, at: int, data: bytes) -> None:
        """Write bytes to a region; of the configuration only the command register, as sizing BAR 0 is QEMU's."""
        if region == CONFIG_REGION and at in (4, 5):
            self._config[at : at + len(data)] = data
        if region != 0:
            return
        self._bar[at : at + len(data)] = data
        if at == MAILBOX + 8:  # a command: the mailbox is the kernel's now
            self._quads(MAILBOX, 1 << 4)
        elif at == MAILBOX:
            (status,) = struct.unpack_from("<Q", self._bar, MAILBOX)
            if status & 1:  # run it: done; "the feature is not enabled" by default
                self._words(MAILBOX + 12, 0x80 << 8)
                self._quads(MAILBOX, 1 << 4 | 0x40 << 8)
            elif status & 1 << 6:
                self._quads(MAILBOX, 0)

    def answer(self, command: int, body: bytes) -> bytes | None:
        """Return the answer to a vfio-user message; None to an unknown one."""
        if command in (2, 8, 13):  # map memory, set interrupts, reset
            return b""
        if command == 15:  # several writes
            (number,) = struct.unpack_from("<Q", body)
            for i in range(number):
                at, region, length = struct.unpack_from("<QII", body, 8 + 24 * i)
                self.write(region, at, body[24 + 24 * i :][:length])
            return struct.pack("<Q", number)
        if command in (9, 10):  # read, write
            at, region, length = struct.unpack_from("<QII", body)
            if command == 10:
                self.write(region, at, body[16 : 16 + length])
                return body[:16]
            return body[:16] + self.read(region, at, length)
        (index,) = struct.unpack_from("<I", body, 8) if len(body) >= 12 else (0,)
        size = {0: self.size, CONFIG_REGION: len(self._config)}.get(index, 0)
        return {
            1: bytes(4) + VERSION,
            3: body[:24],  # unmap memory
            4: struct.pack("<IIII", 16, 2, 9, 5),  # PCI, 9 regions, 5 kinds of interrupt
            5: struct.pack("<IIIIQQ", 32, 3 if size else 0, index, 0, size, 0),  # a region
            7: struct.pack("<IIII", 16, 0, index, 0),  # interrupts: none
        }.get(command)


def _receive(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more, files, *_ = socket.recv_fds(connection, length - len(data), 8)
        for file in files:  # the guest's memory, which is not needed
            os.close(file)
        if not more:
            raise ConnectionError
        data += more
    return data


def serve(device: Device, connection: socket.socket) -> None:
    """Answer until the other side ends."""
    while True:
        number, command, size, flags, _ = struct.unpack("<HHIII", _receive(connection, 16))
        out = device.answer(command, _receive(connection, size - 16))
        if not flags & NO_REPLY:
            error = (FAILED, EOPNOTSUPP) if out is None else (REPLY, 0)
            out = out or b""
            connection.sendall(struct.pack("<HHIII", number, command, 16 + len(out), *error) + out)


if __name__ == "__main__":
    path, file, number, most = sys.argv[1:]
    ours = Device(file, int(number), int(most))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    with contextlib.suppress(ConnectionError):
        serve(ours, listener.accept()[0])
