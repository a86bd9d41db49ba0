"""The use cases of accounts: login, sessions, token verification, profiles.

Services are synchronous and thread-safe. They never import the API.
"""
