"""systemd's own check of the units, with this machine's paths in place of a deployment's."""

import subprocess
import sys
from pathlib import Path

UNITS = Path(__file__).parents[2] / "deploy/systemd"


def test_systemd_finds_nothing(tmp_path: Path) -> None:
    for unit in (*UNITS.glob("*.service"), *UNITS.glob("*.target")):
        text = unit.read_text().replace("/srv/parley/.venv/bin/python", sys.executable)
        (tmp_path / unit.name.replace("@.", "@1.")).write_text(text)
    result = subprocess.run(
        ["systemd-analyze", "verify", *map(str, tmp_path.iterdir())],
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:/lib/systemd/system", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    ours = [line for line in result.stderr.splitlines() if "parley" in line]
    assert (result.returncode, ours) == (0, [])
