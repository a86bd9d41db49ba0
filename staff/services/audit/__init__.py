"""The audit: do the items of DynamoDB agree with each other?

Checks are small functions on facts that were read before (`chat_checks`, `user_checks`); `log_facts` follows a chat's
entries, `auditor` reads the facts, runs the checks and repairs. Each problem says what repairs it. A repair is offered
only where what is stored leaves no doubt, and is conditional on what was seen, so it is safe during traffic.
"""
