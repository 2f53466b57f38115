"""Exclusive CPUs without interrupts on a simulated host: affinities, their restoration, irqbalance."""

import pytest
from conftest import Host
from hosts.faults import failing
from hosts.interrupts import EXCLUSIVE, Balancer, InterruptHost, without
from hosts.placed import CPUS

from resctrl_hooks.core.node.host.cpulist import format_list, parse_list
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node import irqbalance, node_values
from resctrl_hooks.placement.node.interrupts import Interrupts

MASK = "irq-affinity.resource-policy.nri.io"


@pytest.fixture
def node(host: Host) -> InterruptHost:
    return InterruptHost(host)


def settled(node: InterruptHost) -> None:
    assert reconcile(node.host.context()).ok
    again = reconcile(node.host.context())
    assert ([*again.events["problem"]], again.number("repaired")) == ([], 0)


@pytest.mark.parametrize(
    "milli, more, cpus, quiet",
    [
        (4000, {}, "0-1,16-17", "1,17"),
        (2000, {}, "0,16", ""),
        (6000, {}, "0-2,16-18", "1-2,17-18"),
        (4000, {"hide-hyperthreads.resource-policy.nri.io": "true"}, "0-1", "1,17"),
        (4000, {MASK: "mask: ['*']"}, "0-1,16-17", "0-1,16-17"),
    ],
)
def test_interrupts_stay_on_the_first_core_by_crios_housekeeping(
    node: InterruptHost, milli: int, more: dict[str, str], cpus: str, quiet: str
) -> None:
    node.start("a", milli, **(EXCLUSIVE | {"irq-load-balancing.crio.io": "housekeeping"} | more))
    assert node.cpus("a") == cpus
    assert node.changed().get("1", "0-31") == format_list(parse_list("0-31") & ~parse_list(quiet))
    settled(node)
    node.stop("a")
    assert node.changed() == {}


def test_unknown_value_of_crios_annotation_is_reported_and_changes_no_interrupt(node: InterruptHost) -> None:
    log = node.start("a", 2000, **(EXCLUSIVE | {"irq-load-balancing.crio.io": "housekeping"}))
    assert "annotation irq-load-balancing.crio.io is ignored: unknown value 'housekeping'" in log
    assert (node.cpus("a"), node.changed()) == ("0,16", {})


@pytest.mark.parametrize("value", ["mask: ['*']", '{"mask": ["*"]}', "mask:\n- '*'\nmode: mask-first"])
def test_mask_of_all_interrupts_counts(node: InterruptHost, value: str) -> None:
    node.start("a", 2000, **{CPUS: "exclusive", f"{MASK}/container.a": value})
    assert node.changed() == without("0,16")


@pytest.mark.parametrize("value", ["claim: ['nvme*']", "mask: ['eth*']", "mask: ['*']\nclaim: ['nvme*']"])
def test_other_irq_affinity_is_named_and_changes_no_interrupt(node: InterruptHost, value: str) -> None:
    log = node.start("a", 2000, **{CPUS: "exclusive", MASK: value})
    assert "can only be `mask: ['*']` here" in log
    assert node.changed() == {}


@pytest.mark.parametrize("other, while_held", [("0-31", "1-15,17-31"), ("9", "9")])
def test_affinity_that_another_program_set_meanwhile_is_the_restored_one(
    node: InterruptHost, other: str, while_held: str
) -> None:
    node.start("a", 2000, **EXCLUSIVE)
    node.path("25").write_text(f"{other}\n")
    settled(node)
    assert node.path("25").read_text().strip() == while_held
    node.stop("a")
    assert node.path("25").read_text().strip() == other


def test_managed_interrupts_are_counted_and_named_once(node: InterruptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    true_write = node_values.write_value

    def write(base: str, key: str, value: str) -> str:
        return "EIO" if key.startswith(("24/", "25/")) else true_write(base, key, value)

    monkeypatch.setattr(node_values, "write_value", write)
    told = "cannot move 2 interrupts (EIO, managed by the kernel): 24 nvme0q1, 25 nvme0q2"
    assert node.start("a", 2000, **EXCLUSIVE).count(told) == 1
    assert Interrupts(node.host.context()).refused() == [told]
    assert node.changed() == {key: cpus for key, cpus in without("0,16").items() if key not in ("24", "25")}
    assert told not in node.start("b", 2000, **EXCLUSIVE)
    settled(node)
    node.stop("a")
    node.stop("b")
    assert node.changed() == {}
    assert not node.record.exists()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("banned, before", [("", "NULL"), ("30-31", "30-31")])
def test_irqbalance_is_told_and_told_back(node: InterruptHost, banned: str, before: str, *, lazy: bool) -> None:
    with Balancer(node.balancers, banned, lazy=lazy) as balancer:
        node.start("a", 2000, **EXCLUSIVE)
        ours = ["settings cpus 0,16" + (f",{banned}" if banned else "")]
        assert balancer.commands == ours
        assert node.changed() == without("0,16")
        node.stop("a")  # also before its next pass
        assert balancer.commands == [*ours, f"settings cpus {before}"]
        assert not node.record.exists()


@pytest.mark.parametrize("enabled", [True, False])
def test_irqbalance_that_does_not_answer_in_time_is_told_back_later(node: InterruptHost, *, enabled: bool) -> None:
    with Balancer(node.balancers, "9") as balancer:
        node.start("a", 2000, **EXCLUSIVE)
        node.place(enabled=enabled)
        with failing(irqbalance, "_ask", TimeoutError("timed out")):
            reconcile(node.host.context())
            if enabled:
                node.stop("a")
        assert balancer.commands == ["settings cpus 0,9,16"]
        settled(node)
        assert balancer.told == balancer.own
        assert not node.record.exists()


def test_irqbalance_without_a_known_value_is_not_told(node: InterruptHost) -> None:
    with Balancer(node.balancers, "9") as balancer:
        with failing(irqbalance, "_ask", TimeoutError("timed out")):
            node.start("a", 2000, **EXCLUSIVE)
        assert balancer.commands == []
        settled(node)
        assert balancer.commands == ["settings cpus 0,9,16"]
        node.stop("a")
        assert balancer.told == balancer.own


def test_socket_without_irqbalance_is_ignored(node: InterruptHost) -> None:
    with Balancer(node.balancers) as balancer:
        pass
    balancer.path.touch()
    assert "irqbalance" not in node.start("a", 2000, **EXCLUSIVE)
    assert node.changed() == without("0,16")
