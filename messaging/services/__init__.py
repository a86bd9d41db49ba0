"""The services of messaging: `committer` writes messages, `history` reads them."""
