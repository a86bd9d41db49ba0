"""The REST API of delivery. A view validates the request, makes one service call and renders the result."""
