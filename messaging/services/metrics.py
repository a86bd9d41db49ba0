"""What the ingest path counts."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

BATCH_MESSAGES = Histogram(
    "parley_commit_batch_messages", "Messages in one transaction.", buckets=(1, 2, 4, 8, 16, 24, 33, 49)
)
BATCH_CHATS = Histogram("parley_commit_batch_chats", "Chats in one transaction.", buckets=(1, 2, 4, 8, 16, 24, 33))
COMMIT_SECONDS = Histogram("parley_commit_seconds", "Time for one transaction, successful or not.", buckets=_SECONDS)
SEND_SECONDS = Histogram("parley_send_seconds", "Time from a draft's arrival to its answer.", buckets=_SECONDS)
RETRIED_BATCHES = Counter("parley_commit_retries_total", "Batches of a chat that are retried, by reason.", ["reason"])
CANCELLED = Counter("parley_transactions_cancelled_total", "Cancelled transactions, by the first reason.", ["reason"])
HOMES_CHANGES = Counter("parley_homes_changes_total", "Changes of the list of processes that are homes of chats.")
HOMES = Gauge("parley_homes", "Processes in the list of homes of chats; 0 while there is no list.")
WAITING = Gauge("parley_ingest_waiting_drafts", "Drafts that have no answer yet.")
SENT = Counter("parley_messages_sent_total", "Drafts answered with a message.")
PATHS = Counter(
    "parley_messages_by_path_total",
    "Drafts answered with a message: own, handed over, fallback, or guest (committed for another process).",
    ["path", "reason"],
)
OWN_DRAFTS = PATHS.labels("own", "")
HANDOVER_SECONDS = Histogram(
    "parley_handover_seconds", "Time from handing a batch over to the last of its answers.", buckets=_SECONDS
)
ENVELOPES_REFUSED = Counter(
    "parley_handover_refused_total",
    "Envelopes and parcels of other processes that were refused, by reason.",
    ["reason"],
)
DUPLICATES = Counter("parley_messages_duplicate_total", "Drafts that an earlier send had already stored.")
LARGE_CHATS = Counter("parley_large_chats_total", "Chats that reached a multiple of 16,000,000 entries.")
FAILED = Counter("parley_drafts_failed_total", "Drafts answered with an error, by its code.", ["code"])
