import hashlib, hmac, json, sys, uuid
draw = json.load(open(sys.argv[1]))
raw = lambda entry: uuid.UUID(entry).bytes
secret = key = back = bytes.fromhex(draw["secret"])
for _ in range(draw["link"]): back = hashlib.sha256(back).digest()
digest = hashlib.sha256(b"".join(map(raw, draw["pool"]))).digest()
if "beacon" in draw: key += hashlib.sha256(bytes.fromhex(draw["beacon"]["signature"])).digest()
ticket = lambda entry: hmac.digest(key, draw["draw"].to_bytes(4, "big") + digest + raw(entry), "sha256")
assert back.hex() == draw["commitment"] and digest.hex() == draw["pool_digest"], "not what was announced"
print("\n".join(sorted(draw["pool"], key=ticket)))
