"""The REST face of `delivery`: translates, makes one service call, translates back."""
