"""What staff may do, and the groups that have those rights.

The rights are Django permissions of one model without a table. `support` looks and revokes, `moderator` also acts on
people and entries, `operator` also on the system.
"""

VIEW_PEOPLE = "view_people"
VIEW_CHATS = "view_chats"
READ_MESSAGES = "read_messages"
VIEW_CONNECTIONS = "view_connections"
VIEW_AUDIT_LOG = "view_audit_log"
REVOKE_SESSIONS = "revoke_sessions"
SUSPEND_PEOPLE = "suspend_people"
DELETE_ENTRIES = "delete_entries"
EXPORT_PEOPLE = "export_people"
ERASE_PEOPLE = "erase_people"
VIEW_ENGINES = "view_engines"
DRAIN_GATEWAYS = "drain_gateways"
RECONCILE_CHATS = "reconcile_chats"

NAMES = {
    VIEW_PEOPLE: "Can find people and see their accounts",
    VIEW_CHATS: "Can see chats without contents",
    READ_MESSAGES: "Can read messages, for a reason",
    VIEW_CONNECTIONS: "Can see connections",
    VIEW_AUDIT_LOG: "Can see the audit log",
    REVOKE_SESSIONS: "Can revoke sessions",
    SUSPEND_PEOPLE: "Can suspend and restore people",
    DELETE_ENTRIES: "Can delete messages",
    EXPORT_PEOPLE: "Can export a person's data",
    ERASE_PEOPLE: "Can erase people",
    VIEW_ENGINES: "Can see the engines",
    DRAIN_GATEWAYS: "Can drain gateways",
    RECONCILE_CHATS: "Can audit, reconcile and repair chats",
}

_SUPPORT = (VIEW_PEOPLE, VIEW_CHATS, READ_MESSAGES, VIEW_CONNECTIONS, VIEW_AUDIT_LOG, REVOKE_SESSIONS)
_MODERATOR = (*_SUPPORT, SUSPEND_PEOPLE, DELETE_ENTRIES)
_OPERATOR = (*_MODERATOR, EXPORT_PEOPLE, ERASE_PEOPLE, VIEW_ENGINES, DRAIN_GATEWAYS, RECONCILE_CHATS)

GROUPS = {"support": _SUPPORT, "moderator": _MODERATOR, "operator": _OPERATOR}
