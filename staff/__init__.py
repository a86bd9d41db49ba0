"""Staff: the tools of those who look after Parley: admin pages, reconciliation, repair, and the log of what they did.

Stands on the services of the apps. Django's own database holds staff accounts and the audit log, never chat state.
"""
