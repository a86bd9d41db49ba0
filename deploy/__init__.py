"""Deployment: templates, units and rules for whoever operates Parley, and the code that makes and checks them.

What can be derived from the code is: tables from the models, policies from the access patterns. Nothing here runs in
`web` or `fanout`.
"""
