"""A study of tacit over Flower's connections: the same requests, the same sealed bytes."""
