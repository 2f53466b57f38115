"""A container's placement request: from its CPU request, QoS class, annotations, and its namespace's permissions.

Annotations of the NRI project's topology-aware policy count where they have the same meaning here (nri-plugins,
docs/resource-policy/policy/topology-aware.md).
"""

from ...core.node.container.resources import GUARANTEED, cpu_request, qos_of
from ...core.node.permissions import allows, check_allowed
from .hints import HINTS, hints_of
from .policy import (
    BOOLEANS,
    EXCLUSIVE,
    MILLI,
    MIXED,
    POOLS,
    RESERVED,
    SHARED,
    PlacementError,
    Request,
    pools_in_use,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.container.workload import Workload
    from ...core.node.settings import Settings
    from .policy import RequestRecord

CPUS = "cpus.placement.resctrl-hooks.io"
POOL = "pool.placement.resctrl-hooks.io"
_NRI = ".resource-policy.nri.io"
PREFER_SHARED, PREFER_ISOLATED = f"prefer-shared-cpus{_NRI}", f"prefer-isolated-cpus{_NRI}"
PREFER_RESERVED, HIDE_THREADS = f"prefer-reserved-cpus{_NRI}", f"hide-hyperthreads{_NRI}"
PRESERVE_CPUS, PRESERVE_MEMORY = f"cpu.preserve{_NRI}", f"memory.preserve{_NRI}"
REQUIRE_ISOLATED = f"require-isolated-cpus{_NRI}"
STRICT_HINTS = f"strict.topologyhints{_NRI}"
BY_HINTS = f"pick-resources-by-hints{_NRI}"
IRQ_AFFINITY, IRQ_BALANCING = f"irq-affinity{_NRI}", "irq-load-balancing.crio.io"
MEMORY_TYPE, UNLIMITED = f"memory-type{_NRI}", f"unlimited-burstable{_NRI}"
BALLOON = f"balloon.balloons{_NRI}"
CPU_CLASS = f"cpu-class{_NRI}"
_PRESERVE = "preserve"
_MOST = 1 << 14
_LONGEST_POOL = 253  # the request is part of the record, which has a size limit


def preserves(workload: "Workload", settings: "Settings") -> bool:
    """Return whether a container's CPUs and memory nodes stay as they are, by annotation.

    Raises:
        PlacementError: its namespace may not request that; it could run on exclusive CPUs of others.
    """
    if not _flag(workload, PRESERVE_CPUS):
        return False
    check_allowed(settings, "placement.allow", workload, _PRESERVE, "keep its CPUs unchanged", PlacementError)
    return True


def request_of(workload: "Workload", settings: "Settings") -> Request:
    """Return the request of a container.

    Raises:
        PlacementError: an annotation requests a missing or forbidden value.
    """
    from ...core.node.names import matches

    options = settings.sections["placement"]
    request = shared_request(workload, settings)
    request.pool = _annotation(workload, POOL)
    if not request.pool and options["policy"] == POOLS:
        request.pool = _annotation(workload, BALLOON)
    memory_type, level = _annotation(workload, MEMORY_TYPE), _annotation(workload, UNLIMITED)
    if memory_type or level:
        from .annotated import level_of, memory_kinds_of  # few containers have these annotations

        request.memory_kinds = memory_kinds_of(memory_type)
        request.wide = level_of(level) if not request.limit else ""
    request.one_thread = _flag(workload, HIDE_THREADS) or False
    request.hints = hints_of(workload.bundle, _annotation(workload, HINTS), settings, workload)
    request.strict_hints = _flag(workload, STRICT_HINTS) or False
    request.by_hints = _flag(workload, BY_HINTS) or False
    request.any_memory = _flag(workload, PRESERVE_MEMORY) or False
    if len(request.pool) > _LONGEST_POOL:
        raise PlacementError(
            f"annotation {POOL} is too long for a pool name: {request.pool[:80]!r} …", hint="shorten it"
        )
    if request.pool:
        pools = [str(pool.get("name")) for pool in pools_in_use(options)]
        _check_allowed(request.pool, f"pool {request.pool[:80]!r}", workload, settings, pools)
    if request.pool == RESERVED and _is_built_in(RESERVED, options):
        request.pool, request.kind = "", RESERVED  # the balloon of this name always exists
        return request
    if any(pool.get("matchExpressions") or pool.get("instancePer") for pool in pools_in_use(options)):
        from .pool_choice import choose_pool  # few nodes have such pools

        choose_pool(request, workload, pools_in_use(options))
    if any(matches(pattern, workload.namespace) for pattern in options.get("reservedNamespaces") or []):
        request.kind = RESERVED
        return request
    _choose_kind(request, workload, options)
    if request.kind == RESERVED:
        _check_allowed(RESERVED, "reserved CPUs", workload, settings)
    if request.kind in (EXCLUSIVE, MIXED):
        _choose_exclusive(request, workload, settings)
    cpu_class, name = workload.annotation(*workload.own_and_pods(CPU_CLASS))
    if cpu_class:
        from .annotated import cpu_class_of  # as above

        request.cpu_class = cpu_class_of(cpu_class.strip(), name, request, workload, settings)
    return request


def shared_request(workload: "Workload", settings: "Settings") -> Request:
    """Return the request of a container without special wishes."""
    milli, limit = cpu_request(workload.bundle.resources)
    return Request(
        workload.id,
        workload.key,
        namespace=workload.namespace,
        pod=workload.pod,
        container=workload.container,
        qos=qos_of(workload),
        milli=milli,
        limit=limit,
        memory=_memory(workload.bundle.resources),
        options=settings.sections["placement"],
    )


def request_from(record: "RequestRecord", id_: str, key: str, options: "dict[str, Any]") -> Request:
    """Return the request from a step's parameters.

    Raises:
        PlacementError: they are from another version.
    """
    try:
        return Request(id_, key, options=options, **record)
    except TypeError as error:
        raise PlacementError(f"invalid recorded request of {id_[:12]}: {error}") from error


def _choose_kind(request: Request, workload: "Workload", options: "dict[str, Any]") -> None:
    """Choose the kind: by our annotation, then NRI's; else a Guaranteed pod's whole CPUs are exclusive if allowed."""
    text = _annotation(workload, CPUS)
    kind, colon, number = text.partition(":")
    if text:
        if kind not in (SHARED, EXCLUSIVE, MIXED, RESERVED) or (colon and not _is_number(number)):
            raise PlacementError(
                f"invalid annotation {CPUS}: {text[:80]!r}",
                hint="write shared, exclusive, mixed or reserved, with a number as in exclusive:4 or mixed:4",
            )
        request.kind = kind
        request.exclusive = min(int(number.lstrip("0")[:6] or 0), _MOST) if colon else 0
        return
    if _flag(workload, PREFER_RESERVED):
        request.kind = RESERVED
        return
    shared = _flag(workload, PREFER_SHARED)
    if request.qos != GUARANTEED or request.milli < MILLI or shared:
        return
    if not allows(options.get("allow"), workload.namespace, EXCLUSIVE):
        return  # an implicit request does not justify a rejection
    if not request.milli % MILLI:
        request.kind = EXCLUSIVE
    elif shared is False:
        request.kind = MIXED


def _choose_exclusive(request: Request, workload: "Workload", settings: "Settings") -> None:
    """Choose the number of exclusive CPUs, isolated ones, and the interrupts on them.

    Raises:
        PlacementError: as `request_of`.
    """
    request.exclusive = request.exclusive or max(request.milli // MILLI, 1)
    _check_number(request, workload, settings)
    request.only_isolated = _flag(workload, REQUIRE_ISOLATED) or False
    preferred = request.only_isolated or _flag(workload, PREFER_ISOLATED)
    if preferred:
        _check_allowed("isolated", "isolated CPUs", workload, settings)
    request.isolated = bool(settings.sections["placement"].get("preferIsolCpus")) if preferred is None else preferred
    balancing, affinity = _annotation(workload, IRQ_BALANCING), _annotation(workload, IRQ_AFFINITY)
    if balancing or affinity:
        from .annotated import choose_interrupts  # as above

        choose_interrupts(request, balancing, affinity, workload)


def _check_number(request: Request, workload: "Workload", settings: "Settings") -> None:
    """Refuse more exclusive CPUs than the whole CPUs of the container's request, unless the operator grants a number.

    The scheduler knows requests only. A container without one could take the CPUs that others have requested.

    Raises:
        PlacementError: the namespace may not use so many.
    """
    allow, whole = settings.sections["placement"].get("allow"), request.milli // MILLI
    if not _is_granted(allow, workload.namespace, request.exclusive):
        _check_allowed(EXCLUSIVE, "exclusive CPUs", workload, settings)
        if request.exclusive > whole:
            raise PlacementError(
                f"{request.exclusive} exclusive CPUs are annotated, but the CPU request has {whole} whole CPUs",
                hint=f"request the CPUs, or add `{EXCLUSIVE}:{request.exclusive}` to placement.allow",
            )


def _is_granted(allow: "dict[str, list[str]] | None", namespace: str, number: int) -> bool:
    """Return whether an ``allow`` table grants so many exclusive CPUs: by ``exclusive:N``, or by a pattern."""
    from ...core.node.names import matches

    if allows(allow, namespace, f"{EXCLUSIVE}:{number}"):
        return True
    numbers = [
        entry.partition(":")[2]
        for pattern, entries in (allow or {}).items()
        if matches(pattern, namespace)
        for entry in entries
        if entry.startswith(f"{EXCLUSIVE}:")
    ]
    return any(_is_number(text) and int(text[:6]) >= number for text in numbers)


def _is_built_in(name: str, options: "dict[str, Any]") -> bool:
    """Return whether a pool's name is one of the balloons policy that no declared pool has."""
    return options["policy"] == POOLS and all(pool.get("name") != name for pool in pools_in_use(options))


def _is_number(text: str) -> bool:
    # Other scripts' digits are decimal too, and int() rejects superscripts.
    return text.isascii() and text.isdecimal()


def _check_allowed(
    name: str, what: str, workload: "Workload", settings: "Settings", declared: "list[str] | tuple[()]" = ()
) -> None:
    check_allowed(settings, "placement.allow", workload, name, f"use {what}", PlacementError, declared)


def _annotation(workload: "Workload", name: str) -> str:
    return workload.annotation(*workload.own_and_pods(name))[0].strip()


def _flag(workload: "Workload", name: str) -> "bool | None":
    """Return an annotation's boolean value; None without it, or with another value, which is a dropped wish."""
    value = _annotation(workload, name)
    if not value:
        return None
    if value not in BOOLEANS:
        from ...core.node.container.author_input import drop  # few annotations are wrong

        drop(workload, f"annotation {name}", f"{value[:40]!r} is neither true nor false")
    return BOOLEANS.get(value)


def _memory(resources: "dict[str, Any]") -> int:
    memory = resources.get("memory")
    limit = memory.get("limit") if isinstance(memory, dict) else 0
    return limit if isinstance(limit, int) and 0 < limit < 1 << 50 else 0
