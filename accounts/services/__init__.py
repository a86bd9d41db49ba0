"""The use cases of accounts: login, sessions, token verification, profiles."""
