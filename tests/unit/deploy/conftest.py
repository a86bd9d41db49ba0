"""Without `promtool` (Debian's package prometheus) and `systemd-analyze`, the tests that run them are not collected."""

import shutil

PROGRAMS = {"promtool": "test_rules.py", "systemd-analyze": "test_units.py"}

collect_ignore = [file for program, file in PROGRAMS.items() if shutil.which(program) is None]
