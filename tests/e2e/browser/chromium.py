"""The Chromium of this machine, if it has one."""

import importlib.util
import shutil

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
IS_POSSIBLE = PROGRAM is not None and importlib.util.find_spec("playwright") is not None
