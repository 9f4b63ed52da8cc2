#!/usr/bin/env python3
"""Draws computed without a line of Fairlist's: what tests/data/draws.json holds. Run it to write that file again."""
import hashlib
import hmac
import json
import uuid


def chain(end, link):
    for _ in range(1000 - link):
        end = hashlib.sha256(end).digest()
    return end


def entry(n):
    return str(uuid.UUID(bytes=hashlib.sha256(b"entry %d" % n).digest()[:16]))


def draw(number, link, size, beacon):
    end = hashlib.sha256(b"the end of a chain").digest()
    secret, pool = chain(end, link), [entry(n) for n in range(size)]
    digest = hashlib.sha256(b"".join(uuid.UUID(i).bytes for i in pool)).digest()

    def ticket(i):
        message = number.to_bytes(4, "big") + digest + uuid.UUID(i).bytes
        return hmac.new(secret + beacon, message, hashlib.sha256).hexdigest()

    return {
        "number": number, "link": link, "end": end.hex(), "commitment": chain(end, 0).hex(), "secret": secret.hex(),
        "beacon": beacon.hex(), "pool": pool, "pool_digest": digest.hex(), "first_ticket": ticket(pool[0]) if pool else "",
        "ranking": sorted(pool, key=lambda i: (ticket(i), uuid.UUID(i).bytes)),
    }


if __name__ == "__main__":
    beacon = hashlib.sha256(b"a beacon").digest()
    draws = [draw(1, 1, 1, b""), draw(1, 1, 12, b""), draw(2, 2, 40, b""), draw(1001, 1000, 7, b""), draw(3, 77, 25, beacon)]
    print(json.dumps(draws, indent=1))
