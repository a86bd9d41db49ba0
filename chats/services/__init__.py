"""The use cases of chats.

Rights are checked on strongly consistent reads, and every write is conditional. Services never import the API.
"""
