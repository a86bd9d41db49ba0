from tests.integration.chats.conftest import announcer, clock, database, stage

__all__ = ["announcer", "clock", "database", "stage"]
