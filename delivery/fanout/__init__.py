"""The fanout plane: from Kafka to the gateways of online members.

Reads Kafka and DynamoDB, writes Redis only; its DynamoDB client refuses to write. Delivers at least once: offsets are
committed after the work, and clients show each sequence once.
"""
