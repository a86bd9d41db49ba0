"""The web client: `static` is what a browser gets (no build step), `tests` are its modules' own, run by node.

`static/parley.js` is the protocol and stands alone; `static/app` is the page built on it. Nothing here is imported by
the server, which only hands the files out.
"""
