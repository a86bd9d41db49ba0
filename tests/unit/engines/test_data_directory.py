"""What is kept between two runs on a laptop."""

import os
import stat
from pathlib import Path

import pytest

from engines.data_directory import exclusive_directory
from engines.errors import DataDirectoryUnusable


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestExclusiveDirectory:
    def test_a_new_one_is_for_its_owner_only(self, tmp_path: Path) -> None:
        with exclusive_directory(tmp_path / "deep" / "data") as directory:
            assert mode_of(directory) == 0o700

    def test_an_existing_one_is_made_private_with_its_files(self, tmp_path: Path) -> None:
        directory, outside = tmp_path / "data", tmp_path / "outside"
        directory.mkdir()
        directory.chmod(0o755)
        (directory / "keys").mkdir()
        for path, mode in ((directory / "secret", 0o644), (directory / "keys", 0o755), (outside, 0o644)):
            path.touch()
            path.chmod(mode)
        (directory / "link").symlink_to(outside)
        with exclusive_directory(directory):
            assert mode_of(directory) == 0o700
            assert mode_of(directory / "secret") == 0o600
            assert mode_of(directory / "keys") == 0o700
            assert mode_of(outside) == 0o644

    def test_files_of_the_run_are_private(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            with exclusive_directory(tmp_path / "data") as directory:
                (directory / "sms.jsonl").touch()
                assert mode_of(directory / "sms.jsonl") == 0o600
            assert os.umask(0o022) == 0o022
        finally:
            os.umask(before)

    def test_a_directory_shared_by_all_users_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o1777)
        with pytest.raises(DataDirectoryUnusable, match="is shared with other users"), exclusive_directory(tmp_path):
            pass
        assert mode_of(tmp_path) == 0o1777
        assert list(tmp_path.iterdir()) == []
