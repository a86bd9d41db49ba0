"""Loaded by Python at start-up in the processes of `test_walk`: records which source files run, window by window.

The test writes a window's number to `$TRACE_DIR/window`. When the number changes, this process writes the files that
ran meanwhile to `$TRACE_DIR/<pid>-<number of the old window>`.
"""

import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType

_directory = Path(os.environ["TRACE_DIR"])
_files: set[str] = set()


def _profile(frame: FrameType, event: str, argument: object) -> None:
    if event == "call":
        _files.add(frame.f_code.co_filename)


def _watch() -> None:
    current = "0"
    while True:
        window = (_directory / "window").read_text()
        if window != current:
            ran = sorted(_files)
            _files.clear()
            written = _directory / f"{os.getpid()}-{current}.part"
            written.write_text("\n".join(ran))
            written.rename(written.with_suffix(""))
            current = window
        time.sleep(0.005)


threading.setprofile(_profile)
sys.setprofile(_profile)
_watcher = threading.Thread(target=_watch, daemon=True)
_watcher.start()
