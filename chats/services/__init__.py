"""What can be done with chats. Each right is decided on a strongly consistent read; each change carries a condition."""
