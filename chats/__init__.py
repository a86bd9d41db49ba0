"""Where: chats, who belongs to them in which role, and each chat's counter at birth.

Owns the tables `chats`, `chat_memberships` and `chat_counters`. Never touches a message.
"""
