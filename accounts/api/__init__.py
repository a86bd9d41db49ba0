"""The REST API of accounts. A view validates the request, makes one service call and renders the result."""
