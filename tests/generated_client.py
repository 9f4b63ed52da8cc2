"""Uses the client that a generator made of /v1/openapi.json: joins somebody and tells of a place; then accepts the offer."""
import os
import sys
import uuid

import fairlist_client.models as models
from fairlist_client.api.entries import entries_join
from fairlist_client.api.events import events_my_status
from fairlist_client.api.offers import offers_accept
from fairlist_client.api.places import places_capacity_released
from fairlist_client.client import AuthenticatedClient

client = AuthenticatedClient(base_url=os.environ["FAIRLIST"], token=os.environ["KEY"], raise_on_unexpected_status=True)


def once():
    return str(uuid.uuid4())


if sys.argv[1] == "join":
    ada = models.JoinRequest(name="Ada", email="ada@example.org")
    entry = entries_join.sync("spring", client=client, body=ada, idempotency_key=once())
    assert entry.state == "waiting" and entry.position == 1, entry
    release = models.CapacityItem(source="a shop", id="1", event="spring", quantity=1)
    told = models.CapacityRequest(releases=[release])
    answer = places_capacity_released.sync(client=client, body=told, idempotency_key=once())
    assert answer.results[0].outcome == "applied", answer
else:
    status = events_my_status.sync("spring", client=client, email="ada@example.org")
    assert status.next_step == "answer_offer", status
    why = models.AnswerRequest(reason="customer_asked")
    offer = offers_accept.sync(str(status.entry.offer.id), client=client, body=why, idempotency_key=once())
    print(offer.state, offer.reference)
