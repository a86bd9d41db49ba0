from tests.integration.chats.conftest import clock, database, published, services

__all__ = ["clock", "database", "published", "services"]
