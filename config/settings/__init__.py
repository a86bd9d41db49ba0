"""Settings: `embedded` for a laptop, `test` for the suite, `production` for everything else; `base` is what they share.

Only the environment differs between a laptop and AWS. Production refuses to start without real secrets.
"""
