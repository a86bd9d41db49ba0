"""Who: users, their devices' sessions, and login by phone.

Owns the tables `users` and `sessions`. Knows nothing of chats or messages.
"""
