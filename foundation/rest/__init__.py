"""The REST edge that all apps share: JSON in and out, problems, authentication, health.

Translates between HTTP and the apps; decides nothing.
"""
