"""The metrics of accounts."""

from prometheus_client import Counter

REVOCATION_NOTICES = Counter(
    "parley_revocation_notices_total",
    "Notices that sessions have ended, by whether they could be published.",
    ["outcome"],
)
SUSPENSION_NOTICES = Counter(
    "parley_suspension_notices_total",
    "Notices that users were suspended or restored, by whether they could be published.",
    ["outcome"],
)
SMS_MESSAGES = Counter("parley_sms_total", "Login codes handed to the SMS sender, by outcome.", ["outcome"])
