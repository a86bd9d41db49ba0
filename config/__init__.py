"""How the system is put together: settings, wiring, ASGI, URLs, and the rooms every app may use.

`kernel` knows no app and no store, `stores` talks to the three engines, `http` is the REST edge that all apps share,
`embedded` runs the engines on a laptop. Only `wiring`, `urls`, `asgi` and the commands know all the apps at once.
"""
