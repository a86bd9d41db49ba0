"""What reaches a user, composed from `chats`, `messaging` and the watermarks."""
