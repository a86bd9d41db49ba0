"""The commands that need no app: the server, tables and topics, and the pages made from declarations.

Options and output only; `server` and `stores` do the work. What they need is bound in `config/management/commands`.
"""
