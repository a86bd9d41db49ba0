"""What every app stands on: kernel, the engines' clients, the REST edge, the web server. Imports no app."""
