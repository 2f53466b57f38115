"""The files of recordings, and the packages that some of them need."""

import sys

import pytest

from resctrl_hooks import extras
from resctrl_hooks.observe.recording.files import RecordingError, check


def test_message_about_missing_package_ends_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(RecordingError) as caught:
        check("a.parquet")
    assert str(caught.value) == f"Parquet needs pyarrow: use .csv, or {extras.remedy('parquet')}"
