#!/usr/bin/env python3
"""Whether deliveries verify by the reference library of Standard Webhooks. Each line of the input is a JSON object with
`secret`, `headers`, `body` and whether it is to be `good`; says how many were as they should."""
import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError

count = 0
for line in sys.stdin:
    case = json.loads(line)
    try:
        Webhook(case["secret"]).verify(case["body"], case["headers"])
        good = True
    except WebhookVerificationError:
        good = False
    if good != case["good"]:
        sys.exit(f"verified: {good}, and should be: {case['good']}: {line}")
    count += 1
print(f"{count} as they should")
