"""RMIDs and CLOSIDs: use, exhaustion and return."""

import errno

from .filesystem import Resctrl


def test_group_limit_is_the_smallest_num_rmids(resctrl: Resctrl) -> None:
    # The root group has one of them.
    assert len(resctrl.fill()) == resctrl.rmids - 1
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("mon_groups/more")
    assert "more" not in resctrl.names("mon_groups")


def test_class_uses_an_rmid(resctrl: Resctrl) -> None:
    resctrl.make("gold")
    assert len(resctrl.fill("gold/mon_groups")) == resctrl.rmids - 2
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("silver")
    assert "silver" not in resctrl.names()


def test_class_without_rmid_returns_its_closid(resctrl: Resctrl) -> None:
    made = resctrl.fill()
    for _ in range(resctrl.closids + 1):
        with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
            resctrl.mkdir("gold")
    resctrl.rmdir(made[0])
    resctrl.make("gold")


def test_freed_rmid_is_in_limbo_and_mkdir_is_ebusy(resctrl: Resctrl) -> None:
    made = resctrl.fill()
    resctrl.rmdir(made[0])
    for path in (made[0], "gold"):
        resctrl.poison()
        with resctrl.refused(errno.EBUSY, "Out of RMIDs"):
            resctrl.mkdir(path)
    resctrl.make(made[0])  # it leaves limbo by itself
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("mon_groups/more")


def test_removed_class_frees_the_rmids_of_its_mon_groups(resctrl: Resctrl) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "gold/mon_groups/b")
    resctrl.fill()
    resctrl.rmdir("gold")
    resctrl.make("mon_groups/a", "mon_groups/b", "mon_groups/c")
    with resctrl.refused(errno.ENOSPC, "Out of RMIDs"):
        resctrl.mkdir("mon_groups/d")


def test_exhausted_closids_are_enospc_with_words(resctrl: Resctrl) -> None:
    assert resctrl.closids < resctrl.rmids, "RMIDs would run out first"
    for number in range(resctrl.closids - 1):
        resctrl.make(f"class{number}")
    resctrl.poison()
    with resctrl.refused(errno.ENOSPC, "Out of CLOSIDs"):
        resctrl.mkdir("more")
    resctrl.rmdir("class0")  # and is usable at once
    resctrl.make("more")  # waits for an RMID only
    with resctrl.refused(errno.ENOSPC, "Out of CLOSIDs"):
        resctrl.mkdir("class0")
