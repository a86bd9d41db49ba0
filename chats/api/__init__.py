"""The REST face of `chats`: translates, makes one service call, translates back."""
