"""Delivery: the gateway's sockets, the fanout from Kafka, watermarks, and the inbox.

Owns the table `delivery_state`. The fanout and the gateway write Redis only; lasting changes go through services.
"""
