"""The local run of `manage.py dev`: the engines, the tables and topics, `web` and `fanout` as child processes.

Decides what is started with which options; `engines` starts and supervises it. Imports no app, and is not part of the
production image.
"""
