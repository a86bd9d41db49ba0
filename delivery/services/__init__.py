"""The services of delivery, composed from `chats`, `messaging` and the watermarks."""
