"""Every workload by its name."""

from collections.abc import Mapping

from bench.workloads import Workload
from bench.workloads.abuse import g1_abuse
from bench.workloads.catch_up import w3_catch_up
from bench.workloads.group import w2_group
from bench.workloads.hot_chat import w5_hot_chat
from bench.workloads.idle import w4_idle
from bench.workloads.large_group import w7_large_group
from bench.workloads.mass_reconnect import w9_mass_reconnect
from bench.workloads.mixed import w6_mixed
from bench.workloads.pairs import w1_pairs
from bench.workloads.rest import r1_inbox, r2_history, r3_me, r4_send
from bench.workloads.scale_out import w8_scale_out
from bench.workloads.storm import storm

WORKLOADS: dict[str, Workload] = {
    "W1": w1_pairs,
    "W2": w2_group,
    "W3": w3_catch_up,
    "W4": w4_idle,
    "W5": w5_hot_chat,
    "W6": w6_mixed,
    "W7": w7_large_group,
    "W8": w8_scale_out,
    "W9": w9_mass_reconnect,
    "R1": r1_inbox,
    "R2": r2_history,
    "R3": r3_me,
    "R4": r4_send,
    "STORM": storm,
    "G1": g1_abuse,
}

REHEARSAL_SPEEDUP = 10.0
REHEARSAL_SIZES: Mapping[str, Mapping[str, int]] = {
    "W1": {"pairs": 5},
    "W2": {"members": 12},
    "W3": {"members": 3, "messages": 250},
    "W4": {"connections": 60},
    "W5": {"members": 12},
    "W6": {"chats": 4},
    "W7": {"members": 20, "messages": 5},
    "W8": {"webs": 2, "members": 24, "chats": 6},
    "W9": {"connections": 100, "chats": 4},
    "R1": {"chats": 3},
    "R2": {"messages": 150},
    "R3": {},
    "R4": {},
    "STORM": {"clients": 20, "missed": 150},
    "G1": {"chats": 4, "body_mib": 4},
}
"""Sizes for a rehearsal (smoke test): as small as shows that the workload works."""
