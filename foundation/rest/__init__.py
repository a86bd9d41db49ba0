"""What all REST APIs share: JSON, errors, authentication, throttling, routing, OpenAPI, health checks.

Translates between HTTP and the apps. Never imports an app or contains a business rule.
"""
