"""One door: each argument of each public method works, or is a documented error that changes nothing."""

import contextlib
import enum
import errno
import inspect
import logging
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, examples, temporary_host
from hosts.counter_tree import say_paths
from hosts.faults import failing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks import Counter, Filesystem, LockedKey, Monitor, Totals, canonical_pod_uid, errors, pod_uid_validator
from resctrl_hooks.errors import BadClassError, BadKeyError, BadPidError, HookError, NotTrackedError

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
SPELLINGS = (UID, UID.upper(), UID.replace("-", ""))
KINDS = (None, 5, b"k", ["k"], 1.5, True, {"k": 1}, ...)
WRONG: dict[str, tuple[type[Exception], tuple[Any, ...]]] = {
    **dict.fromkeys(("key", "member", "rdt_class"), (TypeError, KINDS)),
    "pid": (TypeError, (True, 1.0, "7", None, b"7", [7])),
    "patience": (TypeError, (True, "1", b"1", [1])),
    "live": (TypeError, ("k1", b"k1", bytearray(b"k1"), None, 5, ["k1", None], ["k1", b"k2"])),
    "classes": (TypeError, ("gold", b"gold", None, 5, [5])),
    "details": (TypeError, ({"x": {1, 2}}, {"x": b"y"}, {1: 2}, ["x"])),
}
"""By argument, values of another kind."""
LONG, NAN = "x" * 256, float("nan")
INVALID: dict[str, tuple[type[Exception], tuple[Any, ...]]] = {
    "key": (BadKeyError, ("", "..", "a/b", "a\0", "\ud800", "x" * 201)),
    "member": (BadKeyError, ("../../evil", "a/b", "", ".", "~x", "x\n", "é", "x" * 201)),
    "rdt_class": (BadClassError, ("..", ".", "info", "mon_groups", "mon_data", LONG, "a/b", "gold\n", "\0", "\ud800")),
    "pid": (BadPidError, (-1, 1 << 22 | 1, 1 << 64, 10**5000)),
    "patience": (ValueError, (-1, NAN, float("inf"), 10**400)),
    "live": (BadKeyError, (["k", "not valid!"], ("..",))),
    "classes": (BadClassError, ({"..", ""},)),
    "details": (ValueError, ({"x": NAN}, {"boot": "another"}, {"steps": 5}, {"x": 10**40})),
}
"""By argument, values of the right kind that are refused."""
GOOD: dict[str, Any] = {
    "key": "k", "member": "m", "rdt_class": "", "pid": 7, "live": ["k"], "patience": 0.0, "by_class": True,
    "details": {"note": [1, {"a": None}]}, "classes": [""], "origin": "created", "name": "k",
}  # fmt: skip
LEFT_OUT = {"start", "hold_beside", "read_counters", "unlock", "lock_again", "try_lock"}
"""They would run a program by any name, need an object of this package, or end the lock."""


def paths(host: Host) -> dict[str, Any]:
    return {"resctrl_root": host.resctrl, "state_dir": host.state, "proc": host.proc}


def monitor(host: Host, **options: Any) -> Monitor:
    return Monitor(**{**paths(host), "patience": 0.2, **options})


def methods(kind: type) -> Iterator[tuple[str, list[str]]]:
    """Yield each public method with the names of its arguments."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in LEFT_OUT:
            kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
            found = [one for one in inspect.signature(method).parameters.values() if one.kind in kinds]
            yield name, [one.name for one in found[1:]]


def state(host: Host) -> tuple[list[str], list[str]]:
    return host.records(), host.groups()


@pytest.fixture
def on(host: Host) -> Monitor:
    """Return a monitor with key k, its member m, and process 7."""
    host.process(7)
    made = monitor(host)
    made.ensure_group("k")
    made.add_member("k", "m")
    return made


@pytest.mark.parametrize("table", [WRONG, INVALID], ids=["wrong", "invalid"])
def test_refused_argument_is_a_documented_error_of_every_method(host: Host, on: Monitor, table: Any) -> None:
    before, tried = state(host), set()
    with monitor(host).hold("other") as other, on.hold("k") as held:
        for owner in (on, held):
            for name, names in methods(type(owner)):
                for bad in table.keys() & set(names):
                    error, values = table[bad]
                    for value in values:
                        default = inspect.signature(getattr(owner, name)).parameters[bad].default
                        if value is default:
                            continue
                        given_ = {one: GOOD[one] for one in names} | {bad: value}
                        if "key" in given_ and bad != "key":
                            given_["key"] = "z"
                        with pytest.raises(error) as raised:
                            getattr(owner, name)(**given_)
                        assert isinstance(raised.value, (TypeError, ValueError, HookError))
                        assert not isinstance(raised.value, UnicodeError)
                        tried.add((name, bad))
        assert not other.tracked
    assert state(host) == before
    assert len(tried) > 25


@pytest.mark.parametrize("value", [*KINDS, "", "a\0b", "\ud800"], ids=repr)
def test_path_or_prefix_that_no_file_can_have_is_refused(host: Host, value: Any) -> None:
    kind, words = (ValueError, "") if isinstance(value, str) else (TypeError, " must be a str, not")
    for name in paths(host):
        with pytest.raises(kind, match=f"{name}{words}"):
            Monitor(**{**paths(host), name: value})
    if kind is ValueError:
        return
    with pytest.raises(TypeError, match="group_prefix must be a str, not"):
        monitor(host, group_prefix=value)
    with pytest.raises(TypeError):
        monitor(host).start("k", ["true"], rdt_class=value)
    for name in ("log", "fs", "key_validator", "patience"):
        if value is not None and not (name == "patience" and value in (5, 1.5) and value is not True):
            with pytest.raises(TypeError):
                monitor(host, **{name: value})


@contextlib.contextmanager
def answering(number: int) -> Iterator[None]:
    """Let the kernel answer every call with an errno, or as usual if it is 0."""
    with contextlib.ExitStack() as faults:
        for name in ("mkdir", "rmdir", "listdir", "is_folder", "write") if number else ():
            faults.enter_context(failing(Filesystem, name, OSError(number, os.strerror(number), "/x")))
        yield


@pytest.mark.parametrize("spelled", SPELLINGS)
@pytest.mark.parametrize("number", [0, errno.ENOENT, errno.EROFS, errno.EMFILE], ids=errno.errorcode.get)
def test_every_method_takes_each_spelling_and_has_an_error_of_its_own(host: Host, spelled: str, number: int) -> None:
    host.process(7)
    pods = monitor(host, key_validator=pod_uid_validator, key_canonicalizer=canonical_pod_uid)
    for name, names in methods(Monitor):
        pods.ensure_group(UID)
        pods.add_member(UID, "m")
        given_ = {one: GOOD[one] for one in names} | ({"key": spelled} if "key" in names else {})
        given_ |= {"live": [spelled]} if "live" in names else {}
        with answering(number):
            with contextlib.suppress(HookError) if number else contextlib.nullcontext():
                found = getattr(pods, name)(**given_)
                if isinstance(found, LockedKey):
                    found.unlock()
                elif isinstance(found, bool):
                    assert not found, "the member lives"
            assert pods.ledger.keys() in ([UID], [] if name == "remove" else [UID]), name
            assert {one.key for one in pods.list()} <= {UID}


def test_untracked_key_is_an_error_and_leaves_nothing(host: Host) -> None:
    host.process(7)
    none = ("ensure_group", "hold", "canonical_key", "member_count", "members", "reconcile", "list", "read_all")
    for name, names in methods(Monitor):
        if name not in none:
            with pytest.raises(NotTrackedError, match="k"):
                getattr(monitor(host), name)(**{one: GOOD[one] for one in names})
    assert state(host) == ([], [])


WORDS = ["k", "k", "other", "", "gold", "mon_groups", "info", "..", LONG, 0, 7, -1, 1 << 70, None, ...]
ANYTHING = st.one_of(
    st.sampled_from(WORDS),
    *(st.integers(), st.floats(), st.binary(), st.text(), st.builds(Path), st.builds(complex)),
    st.text(alphabet="ab.-_/~\n\0\ud800é", max_size=4),
    st.lists(st.one_of(st.text(), st.just("k"), st.none())),
    st.sets(st.sampled_from(["", "gold", "silver", None])),
    st.dictionaries(st.text(), st.one_of(st.integers(), st.floats(), st.binary())),
)


@contextlib.contextmanager
def documented(host: Host) -> Iterator[None]:
    """Accept the documented errors of an argument only, and only if they change nothing."""
    before = state(host)
    try:
        yield
    except UnicodeError:
        raise
    except (TypeError, ValueError, HookError):
        assert state(host) == before


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_argument_of_any_kind_is_accepted_or_a_documented_error(host: Host, data: st.DataObject) -> None:
    for name in inspect.signature(Monitor.__init__).parameters:
        if name != "self":
            with documented(host):
                Monitor(**(paths(host) | {name: data.draw(ANYTHING, name)}))
    on = monitor(host)
    on.ensure_group("k")

    def call_all(owner: Any) -> None:
        for name, names in methods(type(owner)):
            with documented(host):
                found = getattr(owner, name)(**{one: data.draw(ANYTHING, f"{name}: {one}") for one in names})
                if isinstance(found, LockedKey):
                    found.unlock()

    call_all(on)
    with on.hold("k") as held:
        call_all(held)
        held.release()
    on.reconcile(live=[])
    assert (*state(host), on.ledger.keys()) == ([], [], [])
    on.hold("k", 0).unlock()


@pytest.mark.parametrize("kind", [Monitor, LockedKey])
def test_every_public_method_enters_through_the_door(kind: type) -> None:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        assert name.startswith("_") or method.__code__.co_name == "enter", name


def test_group_name_that_the_kernel_reserves_or_finds_too_long_is_a_bad_key(host: Host) -> None:
    for key, prefix in (("mon_groups", ""), ("groups", "mon_")):
        with pytest.raises(BadKeyError, match="the kernel reserves this name"):
            monitor(host, group_prefix=prefix).ensure_group(key)
    long = monitor(host, group_prefix="p" * 200)
    with long.hold("k" * 56) as held, pytest.raises(BadKeyError, match="the kernel accepts 255 bytes"):
        held.ensure_group()
    assert long.ensure_group("k" * 55).path.endswith("p" + "k" * 55)
    assert len(host.records()) == 1
    with pytest.raises(BadKeyError, match="invalid group prefix"):
        monitor(host, group_prefix="../")


@pytest.mark.parametrize("change, words", [("{}x", "changes a canonical key"), ("../{}", "invalid")])
def test_canonicalizer_that_changes_a_canonical_key_is_refused(host: Host, change: str, words: str) -> None:
    with pytest.raises(BadKeyError, match=words):
        monitor(host, key_canonicalizer=change.format).ensure_group("k")


def test_text_of_a_subclass_is_taken_as_its_value(host: Host) -> None:
    class Text(str, enum.Enum):  # noqa: UP042  # whose f-string is not its value, unlike StrEnum's
        KEY = "job-17"

    assert type(monitor(host).ensure_group(Text.KEY).key) is str
    assert host.groups() == ["mon_groups/job-17"]


def test_details_are_bounded_and_kept(on: Monitor) -> None:
    endless: dict[str, object] = {}
    endless["x"] = endless
    with on.hold("k") as held:
        with pytest.raises(ValueError, match="nested too deeply"):
            held.add_member("m", endless)
        with pytest.raises(HookError, match="too large"):
            held.add_member("m", {"x": "y" * (1 << 20)})
        held.add_member("m", GOOD["details"])
        assert (held.member("m") or {})["note"] == [1, {"a": None}]  # type: ignore[typeddict-item]
        with pytest.raises(NotTrackedError, match="no group for key k in gold"):
            held.group("gold")


def test_relative_paths_are_those_of_the_folder_at_construction(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host.root)
    on = Monitor("resctrl/", state_dir=Path("run/state"), proc="proc")
    group = on.ensure_group("k")
    monkeypatch.chdir("/")
    assert group.path == f"{host.resctrl}/mon_groups/k"
    assert (on.list(), on.remove("k"), host.groups()) == ([group], [group], [])
    assert repr(on) == f"Monitor({str(host.resctrl)!r}, state_dir={str(host.state)!r})"


def test_hint_is_what_a_program_can_do(host: Host) -> None:
    on = monitor(host, patience=0.01)
    for number, hint in (
        (errno.EBUSY, "in limbo; call again in a second"),
        (errno.ENOSPC, "remove the group of a key that has ended"),
    ):
        with answering(number), pytest.raises(HookError, match=hint):
            on.ensure_group("k")
    with ThreadPoolExecutor(1) as another_thread:
        held = another_thread.submit(monitor(host).hold, "k").result()
        with pytest.raises(HookError, match="call again with more `patience`"):
            on.ensure_group("k")
        another_thread.submit(held.unlock)


def test_log_receives_events_with_their_fields(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    heard: list[str] = []
    for log in (logging.getLogger("jobs"), lambda priority, message, **fields: heard.append(f"{priority} {message}")):
        on = monitor(host, log=log)
        on.ensure_group("k")
        on.remove("k")
    created, removed = caplog.records
    assert (created.levelno, created.name, vars(created)["resctrl_key"]) == (logging.DEBUG, "jobs", "k")
    assert (removed.levelno, removed.getMessage()) == (logging.INFO, f"removed group {host.resctrl}/mon_groups/k")
    assert ["created group" in heard[0], "removed group" in heard[1], len(heard)] == [True, True, 2]


# `Monitor.reconcile`: a live key is never removed, and a failure stops nothing


def test_failure_at_one_key_is_reported_after_all_others(host: Host) -> None:
    host.add_class("gold")
    on = monitor(host, patience=0.01)
    for number in range(6):
        on.ensure_group(f"job-{number}")
    on.ensure_group("job-2", "gold")
    refused = OSError(errno.EPERM, "Operation not permitted")
    with (
        failing(Filesystem, "rmdir", refused, when=lambda _, path: path.endswith(("job-1", "gold/mon_groups/job-2"))),
        monitor(host).hold("job-3"),
        pytest.raises(errors.ReconcileError, match="cannot remove 3 of 5 keys") as raised,
    ):
        on.reconcile(["job-5"])
    assert raised.value.removed == ["job-0", "job-4"]
    reasons = {key: type(error) for key, error in raised.value.failed.items()}
    assert reasons == {**dict.fromkeys(["job-1", "job-2"], errors.NotPermittedError), "job-3": errors.HeldError}
    assert "reconcile will" not in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))  # as between processes
    assert (str(copy), copy.removed, copy.failed.keys()) == (str(raised.value), raised.value.removed, reasons.keys())
    assert monitor(host).reconcile(["job-5"]) == ["job-1", "job-2", "job-3"]
    assert host.groups() == ["mon_groups/job-5"]


# Totals, and what objects print


def totals(host: Host, files: dict[str, object]) -> Totals:
    """Return the totals of a key whose group has these files, by their paths below mon_data."""
    say_paths(host.resctrl, files)
    on = monitor(host)
    say_paths(Path(on.ensure_group("k").path), files)
    return on.totals("k")


VALUE = st.one_of(st.integers(0, 99), st.just("Unavailable"))
TREES = st.dictionaries(
    st.tuples(st.sampled_from(["A", "L3"]), st.integers(0, 2)),
    st.tuples(st.one_of(st.none(), VALUE), st.lists(VALUE, max_size=2)),
)
"""By resource and domain, the value of the whole, if it has one, and of its Sub-NUMA parts."""


@settings(max_examples=examples(40))
@given(TREES)
def test_total_is_the_sum_of_domains_and_of_the_parts_of_those_without_a_value(tree: Any) -> None:
    files: dict[str, object] = {"mon_L3_09/llc_occupancy": 8}
    sums: dict[str, list[int]] = {}
    for (resource, number), (whole, parts) in tree.items():
        folder = f"mon_{resource}_{number:02}"
        names = [folder, *(f"{folder}/mon_sub_{resource}_{part:02}" for part in range(len(parts)))]
        values = zip(names, [whole, *parts], strict=True)
        files |= {f"{name}/mbm_total_bytes": one for name, one in values if one is not None}
        for one in parts if whole is None else [whole]:
            sums.setdefault(resource, []).extend([one] if isinstance(one, int) else [])
    with temporary_host() as host:
        found = totals(host, files)
    assert found.pop("llc_occupancy") == 8
    called = {name: "A/mbm_total_bytes" if name == "A" and "L3" in sums else "mbm_total_bytes" for name in sums}
    assert found == {called[name]: sum(of) if of else None for name, of in sums.items()}


def test_energy_is_summed_in_joules_from_the_first_value(host: Host) -> None:
    energy = [f"mon_PERF_PKG_0{number}/core_energy" for number in (0, 1)]
    assert totals(host, dict(zip(energy, ("0.100000", "0.200000"), strict=True))) == {"core_energy": 0.0}
    say_paths(host.resctrl / "mon_groups/k", dict(zip(energy, ("0.200000", "0.400000"), strict=True)))
    assert monitor(host).totals("k")["core_energy"] == 0.3


@pytest.mark.parametrize("word", ["Unavailable", "Unassigned", "Error"])
def test_missing_part_makes_a_gauge_unknown_and_is_no_part_of_a_total(host: Host, word: str) -> None:
    files: dict[str, object] = {
        f"mon_L3_01/{name}": word for name in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
    }
    files |= {"mon_L3_00/llc_occupancy": 5, "mon_L3_00/mbm_total_bytes": 7, "mon_L3_00/mbm_local_bytes": word}
    assert totals(host, files) == {"llc_occupancy": None, "mbm_local_bytes": None, "mbm_total_bytes": 7}


def test_objects_print_what_they_are(host: Host) -> None:
    assert repr(Counter("core_energy", "cumulative", "J", "Energy.")) == "Counter('core_energy', 'cumulative', 'J')"
    kernel = Filesystem()
    assert repr(kernel) == "Filesystem()"
    assert monitor(host, fs=kernel).resctrl.fs is kernel
    on = monitor(host)
    assert on.members("k") == []
    with on.hold("k") as held:
        held.ensure_group()
        assert repr(held) == "<LockedKey k: groups in the root class>"
        held.add_member("b")
        held.add_member("a")
    assert (on.members("k"), on.member_count("k")) == (["a", "b"], 2)
