"""Chats: direct chats and groups, memberships, roles, and the counter that numbers a chat's messages.

Owns the tables `chats`, `chat_memberships` and `chat_counters`. Never reads or writes a message.
"""
