from tests.app_patterns import app_patterns

__all__ = ["app_patterns"]
