"""How it arrives: the gateway's sockets, the fanout from Kafka, watermarks, sync, and the inbox that joins them.

Owns the table `delivery_state`. The fanout and the gateway write Redis only; what must last goes through services of
the durability plane.
"""
