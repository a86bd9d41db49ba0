"""Redis: disposable routing state, rate limits and control messages. Nothing here may be needed after a loss."""
