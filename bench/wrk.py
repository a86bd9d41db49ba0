"""Runs a load on the REST API by `wrk`, which costs the machine less than a client in Python."""

import asyncio
import json
import re
import shutil
import tempfile
from pathlib import Path

from bench.frames import BODY
from bench.rest_load import CONNECTIONS, TIMEOUT_SECONDS, Outcome, RestLoad
from bench.timeline import InvalidRun

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_SCRIPT = """
local places, count = {{ {places} }}, 0
local headers = {{ ["Content-Type"] = "application/json" }}
request = function()
  count = count + 1
  local place = places[count % #places + 1]
  headers["Authorization"] = "Bearer " .. place[1]
  {body}
  return wrk.format({method}, place[2], headers, body)
end
"""
_SEND = """local body = string.format('{{"client_message_id":"{first}-%d","content":"{content}"}}', count)"""


def lua_script(load: RestLoad) -> str:
    places = ", ".join(f"{{ {json.dumps(token)}, {json.dumps(path)} }}" for token, path in load.places)
    body = "local body = nil" if load.sends is None else _SEND.format(first=load.sends, content=BODY.decode())
    return _SCRIPT.format(places=places, body=body, method=json.dumps(load.method))


def is_installed() -> bool:
    return shutil.which("wrk") is not None


async def run_wrk(load: RestLoad, seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="parley-wrk-") as directory:
        script = Path(directory) / "load.lua"
        script.write_text(lua_script(load))
        process = await asyncio.create_subprocess_exec(
            *("wrk", "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{max(round(seconds), 1)}s"),
            *("--timeout", f"{TIMEOUT_SECONDS:.0f}s", "--latency", "--script", str(script), load.base),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
    if process.returncode:
        raise InvalidRun(f"wrk ended with status {process.returncode}")
    return parse_wrk(output.decode())


def parse_wrk(output: str) -> Outcome:
    """Raises `InvalidRun` if it is not what `wrk --latency` prints."""
    requests = re.search(r"(\d+) requests in ", output)
    latencies = {
        share: float(value) * _UNITS[unit]
        for share, value, unit in re.findall(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s|m)$", output, re.MULTILINE)
    }
    if requests is None or not {"50", "99"} <= latencies.keys():
        raise InvalidRun(f"wrk printed {output[:300]!r}")
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    failed = int(refused[1] if refused else 0) + sum(map(int, broken.groups() if broken else ()))
    return Outcome(int(requests[1]), failed, latencies["50"], latencies["99"])
