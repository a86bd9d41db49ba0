"""The REST API of chats. A view validates the request, makes one service call and renders the result."""
