"""The check of RMID owners."""

import pytest

from core.doctor.patient import Patient


def owners(patient: Patient) -> list[tuple[str, str]]:
    return [(found.level, found.text) for _, found in patient.findings("RMID owners")]


def test_owners_are_printed(patient: Patient) -> None:
    assert owners(patient) == [("ok", "RMIDs by owner: 1 class, 15 free")]


@pytest.mark.parametrize("number, level", [(2, "ok"), (5, "warning")])
def test_greediest_program_is_named(patient: Patient, number: int, level: str) -> None:
    for place in range(number):
        patient.group(patient.resctrl / f"mon_groups/pqos-7-{place}")
    assert [found for found, text in owners(patient) if text.startswith(f"pqos holds {number} of 16 RMIDs: ")] == [
        level
    ]


def test_greedy_program_is_a_warning_if_pods_wait(patient: Patient) -> None:
    patient.group(patient.resctrl / "mon_groups/pqos-7-0")
    patient.write("run/resctrl-hooks/waiting/3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "")
    assert ("warning", "pqos holds 1 of 16 RMIDs: mon_groups/pqos-7-0") in owners(patient)


def test_greedy_runtime_is_named_with_the_remedy(patient: Patient) -> None:
    ids = [f"{number:064x}" for number in range(5)]
    for id_ in ids:
        patient.group(patient.resctrl / f"mon_groups/{id_}")
        patient.write(f"run/crun/{id_}/status", "{}")
    patient.setting(runtimeRoots={"crun": str(patient.root / "run/crun")})
    (_, (_, found)) = patient.findings("RMID owners")
    assert found.text.startswith("the container runtime holds 5 of 16 RMIDs: ")
    assert (found.level, "enableMonitoring" in found.remedy) == ("warning", True)
