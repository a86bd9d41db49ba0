"""Messages over REST: translates, calls one service, translates back."""
