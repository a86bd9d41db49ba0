"""The commands of whoever looks after Parley: options, prompts, output, exit codes. The services do the work.

Each class gets its services through a hook, which the entry point in `config/management/commands` binds: `--help` and
a refused option touch no engine.
"""
