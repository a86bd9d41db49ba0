"""The connection plane: WebSockets, who is connected where, and what waits to be written to whom.

Writes Redis only. What must last, a message or a watermark, goes through services of the durability plane; nothing
here publishes to Kafka.
"""
