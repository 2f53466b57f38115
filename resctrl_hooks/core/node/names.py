"""Names and paths: default folders, keys of groups, RDT classes, container ids, and the canonical pod UID."""

# Default paths; the settings may differ.
RESCTRL_ROOT, CGROUP_ROOT, STATE_DIR = "/sys/fs/resctrl", "/sys/fs/cgroup", "/run/resctrl-hooks"
NODE_FEATURES = "/etc/kubernetes/node-feature-discovery/features.d/resctrl-hooks"
SLOWDOWN_STATUS = "slowdown.json"  # in the state directory; the guard reads it, too

IDENTIFIER = "resctrl-hook"
"""The name in logs."""
LONGEST_ANNOTATION = 1024
"""Characters of an ordinary annotation's value; names of classes, pools and levels are shorter."""
_HEX = frozenset("0123456789abcdef")
_ID = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-")
_UUID_DASHES = (8, 13, 18, 23)
_UUID_LENGTH = 36
_ID_LENGTH = 64
_LONGEST_NAME = 255  # NAME_MAX, for records and units of these names; resctrl itself takes longer ones
_LONGEST_FIELD = 2000  # of a line in the log
_LONGEST_ID = 200  # leaves room for the ledger's additions
_FIRST_BYTE, _LAST_BYTE, _NO_BYTE = 0xDC80, 0xDCFF, 0xDC00  # surrogates of bytes that are not UTF-8 (PEP 383)
KERNELS_GROUP = "mon_groups"
# The kernel's own names in a ctrl_group's folder: mkdir answers EPERM or EEXIST.
KERNEL_NAMES = frozenset(("info", "mon_data", KERNELS_GROUP))


def namespace_in_words(namespace: str) -> str:
    """Return the subject for the beginning of a sentence: Podman's and plain containers have no namespace."""
    return f"namespace {namespace}" if namespace else "a container without a namespace"


def printable(text: str) -> str:
    """Return a text for terminals and metrics: escape sequences and lone surrogates become question marks."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def name_text(name: str) -> str:
    r"""Return a name of the kernel's file systems as text for any output; different names have different texts.

    A byte that is not printable UTF-8 becomes ``\xff``, and a backslash two.
    """
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(_letter_text(letter) for letter in name)


def _letter_text(letter: str) -> str:
    if letter.isprintable():
        return letter if letter != "\\" else "\\\\"
    if _FIRST_BYTE <= ord(letter) <= _LAST_BYTE:
        return f"\\x{ord(letter) - _NO_BYTE:02x}"
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))


def is_hex(text: str, length: int) -> bool:
    """Return whether ``text`` is exactly ``length`` lower-case hexadecimal digits."""
    return len(text) == length and _HEX.issuperset(text)


def canonical_pod_uid(uid: str) -> str:
    """Return a pod's ``uid`` in the form of group names: lower case and dashed, also from a static pod's 32 digits.

        >>> canonical_pod_uid("3F0AC7F28A3B4F0E9A551D9D3B7E6C01")
        '3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01'

    Any other text is returned unchanged, for a validator to refuse. Kepler expects this form.
    """
    text = uid.lower()
    if is_hex(text, 32):
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return text if pod_uid_validator(text) else uid


def pod_uid_validator(key: str) -> bool:
    """Accept a pod UID as ``key``: a UUID with dashes or 32 hexadecimal digits, in either case."""
    text = key.lower()
    if is_hex(text, 32):
        return True
    return (
        len(text) == _UUID_LENGTH
        and all(text[place] == "-" for place in _UUID_DASHES)
        and is_hex(text.replace("-", ""), 32)
    )


def pod_key(uid: str) -> str:
    """Return the key of a pod by its ``uid``, also if that is no UUID; empty if it cannot name a group."""
    key = canonical_pod_uid(uid)
    return key if default_key_validator(key) and key != KERNELS_GROUP else ""


def default_key_validator(key: str) -> bool:
    """Accept a ``key`` that is a safe path component: letters, digits and ``_+.-``, no leading dot, 200 at most."""
    if not 0 < len(key) <= _LONGEST_ID or key[0] == ".":
        return False
    most = key.replace("-", "")  # of UUIDs and ids, of which reconcile checks thousands; a set costs ten times that
    return (most.isascii() and most.isalnum()) or _ID.issuperset(key)


KEY_RULE = "use 1 to 200 letters, digits and _+.-, not starting with a dot"
"""The rule of `default_key_validator` in words, for errors."""


def workload_key_validator(key: str) -> bool:
    """Accept a ``key`` of the hooks: a canonical pod UID, or the 64 digits of a Podman pod or container."""
    return is_hex(key, _ID_LENGTH) or (len(key) == _UUID_LENGTH and pod_uid_validator(key) and key == key.lower())


def valid_container_id(text: str) -> bool:
    """Return whether ``text`` is a container id as runc and crun take it, and safe as a file name."""
    return default_key_validator(text)


def valid_class(name: str) -> bool:
    """Return whether ``name`` is valid for a ctrl_group.

    It is a path component of at most 255 bytes that is not one of the kernel's own names. The kernel accepts spaces and
    leading dots; control characters, which tools cannot print safely, are refused here.
    """
    if not name or name in (".", "..") or name in KERNEL_NAMES or "/" in name or not name.isprintable():
        return False
    return len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME


def matches(pattern: str, name: str) -> bool:
    """Return whether ``name`` matches a shell-like ``pattern`` of literals, ``*`` and ``?``; fnmatch imports ``re``."""
    here = there = 0
    star = mark = -1
    while there < len(name):
        if here < len(pattern) and pattern[here] == "*":
            star, mark = here, there
            here += 1
        elif here < len(pattern) and pattern[here] in ("?", name[there]):
            here += 1
            there += 1
        elif star >= 0:
            mark += 1
            here, there = star + 1, mark
        else:
            return False
    return pattern[here:].strip("*") == ""


def clean(value: "str | int") -> str:
    """Return a value as one printable line, shortened."""
    text = str(value)[:_LONGEST_FIELD]
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
