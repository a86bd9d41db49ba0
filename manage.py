#!/usr/bin/env python
"""Parley's command line: `manage.py dev` runs everything, `manage.py help` lists the rest."""

import os
import sys

from django.core.management import execute_from_command_line

from config.start import refusing_in_sentences


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.embedded")
    with refusing_in_sentences():
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
