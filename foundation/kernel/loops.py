"""An event loop of one's own, in a thread, for processes that have no other."""

import asyncio
import threading


class LoopThread:
    """Runs from its making until `close`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int | None:
        return self._thread.ident

    def close(self, timeout: float) -> None:
        """Take nothing more, and end with what is under way; return after `timeout` at the latest."""
        asyncio.run_coroutine_threadsafe(self._finish(), self.loop)
        self._thread.join(timeout)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        self.loop.stop()
