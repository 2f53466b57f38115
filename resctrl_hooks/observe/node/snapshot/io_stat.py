"""The numbers of a cgroup's ``io.stat`` by device (kernel, Documentation/admin-guide/cgroup-v2.rst)."""


def read_numbers(text: str) -> "dict[str, dict[str, int]]":
    """Return the whole numbers by device, as MAJOR:MINOR, and name; none of a device without any.

    Linux 5.15 and 5.16 end no line of a device without numbers, so the line goes on with the next device: the last one
    has the numbers (corrected by "blk-cgroup: always terminate io.stat lines", Linux 5.17).
    """
    found: "dict[str, dict[str, int]]" = {}
    for line in text.splitlines():
        devices, pairs = [], {}
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals:
                devices.append(word)
            elif value.isdigit():
                pairs[name] = int(value)
        if devices and pairs:
            found[devices[-1]] = pairs
    return found
