"""The admin pages: plain views in Django admin's look, on the services of the apps.

Each page checks its permission before anything else. Each form that changes something has a field `reason`.
"""
