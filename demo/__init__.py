"""The demo: a handful of people, their chats, and a way to be one of them without a phone.

Only for a run on a laptop: the wiring refuses to make it anywhere else, and no path leads to it there. It logs in as
the people of its script, never as anybody else.
"""
