"""The `web` process under daphne: limits, sockets, shutdown. Each module that uses a library's private parts is named
after the library."""
