"""Many small culprits of one owner or namespace are one entry."""

from resctrl_hooks.observe.slowdown.diagnosis import CausePod
from resctrl_hooks.observe.slowdown.groups import grouped


def test_many_pods_of_an_owner_or_a_namespace_are_one_entry() -> None:
    names = [f"ci/build-7d9f8c6b5d-x{letter}zzz" for letter in "bcdf"] + ["ci/a", "web/b", "web/c", "web/d", "web/f"]
    pods = [CausePod(name=name, share=0.1, correlation=None) for name in names]
    outside = CausePod(name="tasks outside pods", share=0.05, correlation=None, outside=True)
    found = {one.name: round(one.share, 3) for one in grouped([*pods, outside])}
    assert found == {
        "4 pods of ci/build": 0.4,
        "4 pods of namespace web": 0.4,
        "ci/a": 0.1,
        "tasks outside pods": 0.05,
    }
