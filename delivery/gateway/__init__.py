"""The connection plane: WebSockets, their registration in Redis, and the frames that wait for them.

Writes Redis only. Messages and watermarks go through services of the durability plane; nothing here publishes to Kafka.
"""
