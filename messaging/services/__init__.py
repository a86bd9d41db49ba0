"""What messaging does: `committer` takes drafts in, `history` reads messages out."""
