"""What staff does, by page or by command. Every change is entered in the audit log."""
