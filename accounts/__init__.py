"""Accounts: users, login by phone, sessions and access tokens.

Owns the tables `users` and `sessions`, and the login codes in Redis. Never imports chats or messages.
"""
