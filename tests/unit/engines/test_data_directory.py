"""What is kept between two runs on a laptop."""

import stat
from pathlib import Path

from engines.data_directory import exclusive_directory


def test_a_new_data_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    with exclusive_directory(tmp_path / "deep" / "data") as directory:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
