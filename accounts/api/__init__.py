"""Accounts over REST: translates a request, makes one service call, translates the answer."""
