from hosts.machines import machine


def test_parts_are_ordered_from_tightest_to_whole() -> None:
    found = machine(2, 2, 2, 4, 2)
    assert [(domain.name, domain.height) for domain in found.domains] == [
        *((f"l3-{number}", 0) for number in range(8)),
        *((f"numa{number}", 1) for number in range(4)),
        *((f"package{number}", 2) for number in range(2)),
        ("node", 3),
    ]
    assert [wider.name for wider in found.domains[5].above] == ["l3-5", "numa2", "package1", "node"]


def test_part_equal_to_wider_one_is_listed_once() -> None:
    assert [domain.name for domain in machine(1, 1, 1, 4).domains] == ["node"]
    assert [domain.name for domain in machine(2, 1, 1, 4).domains] == ["package0", "package1", "node"]


def test_nearest_memory_comes_first() -> None:
    found = machine(2, 2, 1, 2)
    assert [node.id for node in found.memory_near(found.nodes[1].cpus)] == [1, 0, 2, 3]
