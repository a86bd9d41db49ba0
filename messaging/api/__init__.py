"""The REST API of messaging. A view validates the request, makes one service call and renders the result."""
