-- Fairlist's tables.
--
-- Key law: every table of an event's data has `event_id` first in its primary key, unique keys and foreign
-- keys, and in every index that serves a pass, so that it can be partitioned or distributed by event.
-- Plain indexes on `id` and `token_hash` serve look-ups by id; indexes that lead with an instant serve the
-- sweeper, which only asks "which events have something due?".
-- Every instant is bound by the program from one clock; no default reads the server's.

-- ── organizations and their staff ──────────────────────────────────────────────────────────────────────────

CREATE TABLE organizations (
    id          uuid PRIMARY KEY,
    slug        text NOT NULL CONSTRAINT organizations_slug_key UNIQUE,
    name        text NOT NULL,
    accent      text NOT NULL DEFAULT '#2456a6' CONSTRAINT organizations_accent_check CHECK (accent ~ '^#[0-9a-f]{6}$'),
    contact     text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL,
    audit_seq   bigint NOT NULL DEFAULT 0,
    audit_head  bytea NOT NULL DEFAULT '\x0000000000000000000000000000000000000000000000000000000000000000'
);

CREATE TABLE staff (
    id               uuid PRIMARY KEY,
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    email            text NOT NULL,
    email_canonical  text NOT NULL CONSTRAINT staff_email_key UNIQUE,
    name             text NOT NULL,
    role             text NOT NULL CONSTRAINT staff_role_check CHECK (role IN ('viewer', 'agent', 'manager', 'owner')),
    password_hash    text,
    -- Goes up with every new password: sessions of an older one are over.
    password_version integer NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    disabled_at      timestamptz
);
CREATE INDEX staff_organization ON staff (organization_id);

-- One-time links: the first sign-in of somebody invited, or a new password.
CREATE TABLE staff_links (
    token_hash  bytea PRIMARY KEY,
    staff_id    uuid NOT NULL REFERENCES staff (id),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz
);

-- Server-side sessions of both cookies. The id is hashed; `data` never holds a secret.
CREATE TABLE sessions (
    id_hash        bytea PRIMARY KEY,
    kind           text NOT NULL CONSTRAINT sessions_kind_check CHECK (kind IN ('staff', 'customer')),
    data           jsonb NOT NULL,
    subject_id     uuid,
    created_at     timestamptz NOT NULL,
    idle_until     timestamptz NOT NULL,
    absolute_until timestamptz NOT NULL,
    revoked_at     timestamptz
);
CREATE INDEX sessions_subject ON sessions (subject_id) WHERE revoked_at IS NULL;
CREATE INDEX sessions_expiry ON sessions (idle_until);

-- Fixed-window counters of what is limited (sign-in, joining, accepting, codes). Losing them in a crash is harmless.
CREATE UNLOGGED TABLE rate_limits (
    subject      bytea NOT NULL,
    window_start timestamptz NOT NULL,
    hits         integer NOT NULL,
    PRIMARY KEY (subject, window_start)
);
CREATE INDEX rate_limits_window ON rate_limits (window_start);

-- ── other programs ─────────────────────────────────────────────────────────────────────────────────────────

-- What a program shows with every request; only its hash is kept. `hint` is its beginning, by which people tell keys apart.
CREATE TABLE api_keys (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id),
    name            text NOT NULL,
    scopes          text[] NOT NULL CONSTRAINT api_keys_scopes_check CHECK (cardinality(scopes) > 0),
    token_hash      bytea NOT NULL CONSTRAINT api_keys_token_key UNIQUE,
    hint            text NOT NULL,
    made_by         uuid REFERENCES staff (id),
    -- Or by a program, with this key.
    made_by_key     uuid REFERENCES api_keys (id),
    made_at         timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    revoked_at      timestamptz,
    -- To the minute.
    last_used_at    timestamptz,
    CONSTRAINT api_keys_expires_check CHECK (expires_at > made_at),
    CONSTRAINT api_keys_maker_check CHECK (made_by IS NULL OR made_by_key IS NULL)
);
CREATE INDEX api_keys_organization ON api_keys (organization_id, made_at DESC);

-- Who acts with a name of their own: staff, and programs with a key.
CREATE VIEW actors AS
    SELECT 'staff' AS kind, id, name FROM staff UNION ALL SELECT 'key', id, name FROM api_keys;

-- An act asked for with a key of the caller's own choice is done once, and answered the same for a day: `key_hash` is of the
-- caller, the operation and that key. `receipt` is what the act came to, written in the transaction that did it, so that
-- an answer that was lost can be given after all; the answer follows.
CREATE TABLE idempotency_keys (
    key_hash     bytea PRIMARY KEY,
    body_hash    bytea NOT NULL,
    made_at      timestamptz NOT NULL,
    lease        uuid,
    leased_until timestamptz,
    receipt      jsonb,
    status       smallint,
    headers      jsonb,
    body         bytea,
    CONSTRAINT idempotency_keys_lease_check CHECK ((lease IS NULL) = (leased_until IS NULL)),
    CONSTRAINT idempotency_keys_answer_check CHECK ((status IS NULL) = (body IS NULL) AND (status IS NULL) = (headers IS NULL)
        AND (status IS NULL OR lease IS NULL))
);
CREATE INDEX idempotency_keys_made ON idempotency_keys (made_at);

-- ── people ─────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE persons (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id),
    name            text NOT NULL,
    language        text NOT NULL DEFAULT 'en',
    created_at      timestamptz NOT NULL,
    -- Since when they want no mail but what is essential. Their place in a queue does not depend on it.
    news_stopped_at timestamptz
);
CREATE INDEX persons_organization ON persons (organization_id);

-- `canonical` decides identity (lower case, tag removed); `value` is what is written to.
CREATE TABLE contacts (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id),
    person_id       uuid NOT NULL REFERENCES persons (id),
    kind            text NOT NULL CONSTRAINT contacts_kind_check CHECK (kind IN ('email', 'phone')),
    value           text NOT NULL,
    canonical       text NOT NULL,
    confirmed_at    timestamptz,
    failing_since   timestamptz,
    failure         text,
    created_at      timestamptz NOT NULL,
    CONSTRAINT contacts_failure_check CHECK ((failing_since IS NULL) = (failure IS NULL))
);
CREATE UNIQUE INDEX contacts_email_key ON contacts (organization_id, canonical) WHERE kind = 'email';
-- Staff look people up by how an address or a name begins.
CREATE INDEX contacts_prefix ON contacts (organization_id, canonical text_pattern_ops);
CREATE INDEX contacts_person ON contacts (person_id);
CREATE INDEX contacts_failing ON contacts (person_id) WHERE failing_since IS NOT NULL;

-- Six-digit codes. The digits are derived from the id and the program's secret, so nothing here reveals them.
CREATE TABLE codes (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id),
    contact_id      uuid NOT NULL REFERENCES contacts (id),
    event_id        uuid,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    tries           integer NOT NULL DEFAULT 0,
    used_at         timestamptz
);
CREATE INDEX codes_contact ON codes (contact_id, created_at DESC);

-- What a customer's own program shows, got for a code that was entered; only its hash is kept.
CREATE TABLE customer_tokens (
    token_hash bytea PRIMARY KEY,
    person_id  uuid NOT NULL REFERENCES persons (id),
    made_at    timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX customer_tokens_person ON customer_tokens (person_id);
CREATE INDEX customer_tokens_expiry ON customer_tokens (expires_at);

-- ── events and the rule ────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE events (
    id               uuid PRIMARY KEY,
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    slug             text NOT NULL CONSTRAINT events_slug_key UNIQUE,
    name             text NOT NULL,
    description      text NOT NULL DEFAULT '',
    venue            text NOT NULL DEFAULT '',
    zone             text NOT NULL,
    starts_at        timestamptz,
    state            text NOT NULL CONSTRAINT events_state_check CHECK (state IN ('draft', 'published', 'cancelled', 'over')),
    list_state       text NOT NULL CONSTRAINT events_list_state_check CHECK (list_state IN ('open', 'frozen', 'closed')),
    list_opens_at    timestamptz,
    list_freezes_at  timestamptz,
    policy_version   integer NOT NULL,
    next_arrival     bigint NOT NULL DEFAULT 1,
    next_rank        bigint NOT NULL DEFAULT 1,
    next_place       integer NOT NULL DEFAULT 1,
    next_pass        bigint NOT NULL DEFAULT 1,
    last_pass_at     timestamptz,
    -- While an import runs, passes end what is due and offer nothing; the lease frees the list if it dies.
    importing_until  timestamptz,
    -- The rule's order was changed, and keys of the earlier one are still to be taken back: passes wait for that.
    reordering       boolean NOT NULL DEFAULT false,
    -- When the final call was made: from then on its instant is fixed.
    final_called_at  timestamptz,
    -- The last call that took more than one pass: so many were to be told when it began, and so many were told.
    call_began_at    timestamptz,
    call_total       integer,
    call_told        integer,
    call_ended_at    timestamptz,
    -- The next instant that the rule in force set itself: a draw, or the final call.
    rule_due_at      timestamptz,
    form_version     integer NOT NULL DEFAULT 1,
    -- What the event says of its places, in the order in which pages show it: [{key, label, measure, choices}].
    attributes       jsonb NOT NULL DEFAULT '[]',
    next_kind        integer NOT NULL DEFAULT 1,
    next_wants       integer NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL,
    audit_seq        bigint NOT NULL DEFAULT 0,
    audit_head       bytea NOT NULL DEFAULT '\x0000000000000000000000000000000000000000000000000000000000000000',
    -- Whether everything that the audit has is in the feed. Appending to the audit takes it back in the same statement;
    -- a flag that does not change costs nothing.
    fed              boolean NOT NULL DEFAULT false,
    CONSTRAINT events_call_check CHECK ((call_began_at IS NULL) = (call_total IS NULL) AND (call_began_at IS NULL) = (call_told IS NULL)
        AND (call_ended_at IS NULL OR call_began_at IS NOT NULL)),
    CONSTRAINT events_schedule_check CHECK (list_opens_at IS NULL OR list_freezes_at IS NULL OR list_opens_at < list_freezes_at)
);
CREATE INDEX events_organization ON events (organization_id, starts_at);
CREATE INDEX events_starts ON events (starts_at) WHERE state = 'published' AND starts_at IS NOT NULL;
CREATE INDEX events_opens ON events (list_opens_at) WHERE list_opens_at IS NOT NULL;
CREATE INDEX events_rule_due ON events (rule_due_at) WHERE rule_due_at IS NOT NULL;
CREATE INDEX events_freezes ON events (list_freezes_at) WHERE list_freezes_at IS NOT NULL;
CREATE INDEX events_unfed ON events (organization_id) WHERE NOT fed;

-- Every version of an event's rule. Offers name the version under which they were made.
CREATE TABLE policies (
    event_id        uuid NOT NULL REFERENCES events (id),
    version         integer NOT NULL,
    ordering        text NOT NULL CONSTRAINT policies_ordering_check CHECK (ordering IN ('arrival', 'priority', 'lottery', 'manual')),
    -- Priority: the bands ahead of everybody else, each {number, name, reason}; -1 comes last of them.
    bands           jsonb NOT NULL DEFAULT '[]',
    bands_shown     boolean NOT NULL DEFAULT false,
    -- Lottery: when a draw is held, from when on, and whether a public beacon takes part.
    draws           text NOT NULL DEFAULT 'need' CONSTRAINT policies_draws_check CHECK (draws IN ('need', 'at', 'staff')),
    draw_at         timestamptz,
    beacon          text CONSTRAINT policies_beacon_check CHECK (beacon IN ('drand')),
    mode            text NOT NULL CONSTRAINT policies_mode_check CHECK (mode IN ('hold', 'notify_all')),
    -- From then on, final calls instead of holds.
    cutoff          timestamptz,
    window_seconds  integer CONSTRAINT policies_window_check CHECK (window_seconds BETWEEN 300 AND 604800),
    batch_size      integer NOT NULL CONSTRAINT policies_batch_check CHECK (batch_size BETWEEN 0 AND 10000),
    fit             text NOT NULL CONSTRAINT policies_fit_check CHECK (fit IN ('strict', 'fill')),
    after_expiry    text NOT NULL CONSTRAINT policies_after_expiry_check CHECK (after_expiry IN ('back', 'keep', 'leave')),
    after_decline   text NOT NULL CONSTRAINT policies_after_decline_check CHECK (after_decline IN ('keep', 'back', 'leave')),
    silence_limit   integer NOT NULL CONSTRAINT policies_silence_check CHECK (silence_limit BETWEEN 1 AND 100),
    list_cap        integer CONSTRAINT policies_cap_check CHECK (list_cap >= 0),
    telling         text NOT NULL DEFAULT 'extend' CONSTRAINT policies_telling_check CHECK (telling IN ('run', 'extend')),
    party_limit     integer CONSTRAINT policies_party_check CHECK (party_limit BETWEEN 1 AND 100),
    person_limit    integer CONSTRAINT policies_person_check CHECK (person_limit BETWEEN 1 AND 100),
    position_shown  text NOT NULL CONSTRAINT policies_position_check CHECK (position_shown IN ('exact', 'band', 'none')),
    made_by         uuid,
    made_at         timestamptz NOT NULL,
    PRIMARY KEY (event_id, version),
    CONSTRAINT policies_draw_at_check CHECK ((draws = 'at') = (draw_at IS NOT NULL)),
    CONSTRAINT policies_lottery_check CHECK (ordering = 'lottery' OR (draws = 'need' AND beacon IS NULL)),
    CONSTRAINT policies_lottery_mode_check CHECK (ordering <> 'lottery' OR mode = 'hold'),
    CONSTRAINT policies_cutoff_check CHECK (cutoff IS NULL OR window_seconds IS NOT NULL)
);

-- The secrets of a lottery: a chain in which each is the SHA-256 of the next, derived from the installation's secret.
-- Only its beginning is here, and is public from the moment the chain is announced.
CREATE TABLE draw_chains (
    event_id     uuid NOT NULL REFERENCES events (id),
    number       integer NOT NULL,
    commitment   bytea NOT NULL,
    announced_at timestamptz NOT NULL,
    PRIMARY KEY (event_id, number)
);

-- A draw ranks a pool of entries, frozen before its secret is known. `pool` and `ranking` are ids of 16 bytes each, in
-- order of arrival and as drawn; the first `applied` of the ranking have their rank, from the top on.
CREATE TABLE draws (
    event_id       uuid NOT NULL REFERENCES events (id),
    number         integer NOT NULL,
    policy_version integer NOT NULL,
    cause          text NOT NULL CONSTRAINT draws_cause_check CHECK (cause IN ('need', 'scheduled', 'staff')),
    reason         text NOT NULL,
    made_by        uuid,
    frozen_at      timestamptz NOT NULL,
    pool           bytea NOT NULL,
    pool_size      integer NOT NULL,
    pool_digest    bytea NOT NULL,
    chain          integer NOT NULL,
    link           integer NOT NULL CONSTRAINT draws_link_check CHECK (link BETWEEN 1 AND 1000),
    beacon         text CONSTRAINT draws_beacon_check CHECK (beacon IN ('drand')),
    beacon_round   bigint,
    -- The signature of that round: what the beacon said, and the proof of it.
    beacon_proof   bytea,
    secret         bytea,
    ranking        bytea,
    drawn_at       timestamptz,
    first_rank     bigint,
    applied        integer NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, number),
    CONSTRAINT draws_link_key UNIQUE (event_id, chain, link),
    CONSTRAINT draws_chain_fkey FOREIGN KEY (event_id, chain) REFERENCES draw_chains (event_id, number),
    CONSTRAINT draws_policy_fkey FOREIGN KEY (event_id, policy_version) REFERENCES policies (event_id, version),
    CONSTRAINT draws_pool_check CHECK (octet_length(pool) = 16 * pool_size),
    CONSTRAINT draws_drawn_check CHECK ((drawn_at IS NULL) = (secret IS NULL) AND (drawn_at IS NULL) = (ranking IS NULL)
        AND (drawn_at IS NULL) = (first_rank IS NULL)),
    CONSTRAINT draws_ranking_check CHECK (ranking IS NULL OR octet_length(ranking) = octet_length(pool)),
    CONSTRAINT draws_applied_check CHECK (applied BETWEEN 0 AND pool_size AND (applied = 0 OR drawn_at IS NOT NULL)),
    CONSTRAINT draws_beacon_round_check CHECK ((beacon IS NULL) = (beacon_round IS NULL)),
    CONSTRAINT draws_beacon_proof_check CHECK ((beacon IS NOT NULL AND drawn_at IS NOT NULL) = (beacon_proof IS NOT NULL))
);
ALTER TABLE draws ALTER COLUMN pool SET STORAGE EXTERNAL, ALTER COLUMN ranking SET STORAGE EXTERNAL;

-- Places with the same attributes are of one kind, and entries that want the same share a row of `wants`, which says
-- which kinds that are: a pass compares numbers, whatever the event says of its places. Kind 0 is a place of which
-- nothing is said, wants 0 an entry that takes any place; neither has a row.
CREATE TABLE kinds (
    event_id   uuid NOT NULL REFERENCES events (id),
    id         integer NOT NULL CONSTRAINT kinds_id_check CHECK (id BETWEEN 1 AND 1023),
    attributes jsonb NOT NULL,
    words      text NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT kinds_attributes_key UNIQUE (event_id, attributes)
);

CREATE TABLE wants (
    event_id uuid NOT NULL REFERENCES events (id),
    id       integer NOT NULL CONSTRAINT wants_id_check CHECK (id BETWEEN 1 AND 10000),
    wants    jsonb NOT NULL,
    words    text NOT NULL,
    kinds    integer[] NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT wants_wants_key UNIQUE (event_id, wants)
);

-- ── entries ────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE entries (
    event_id        uuid NOT NULL REFERENCES events (id),
    id              uuid NOT NULL,
    person_id       uuid NOT NULL REFERENCES persons (id),
    state           text NOT NULL CONSTRAINT entries_state_check CHECK (state IN
        ('unconfirmed', 'waiting', 'offered', 'accepted', 'declined', 'expired', 'withdrawn', 'removed', 'lapsed', 'closed')),
    arrival         bigint NOT NULL,
    -- The order key is (band, round, rank). Band 0 is the line; what is ahead of it, a band of priority or a draw, is
    -- below 0.
    band            smallint NOT NULL DEFAULT 0,
    round           integer NOT NULL DEFAULT 0,
    rank            bigint NOT NULL,
    -- The rank in the line, to which it goes back when the rank that it drew is no longer the rule.
    line_rank       bigint,
    party           integer NOT NULL CONSTRAINT entries_party_check CHECK (party BETWEEN 1 AND 100),
    wants           integer NOT NULL DEFAULT 0,
    until           timestamptz,
    source          text NOT NULL CONSTRAINT entries_source_check CHECK (source IN ('customer', 'staff', 'import')),
    joined_at       timestamptz NOT NULL,
    confirmed_at    timestamptz,
    vouched         boolean NOT NULL DEFAULT false,
    lapses_at       timestamptz,
    paused          text CONSTRAINT entries_paused_check CHECK (paused IN ('person', 'staff', 'silent')),
    paused_until    timestamptz,
    contact_problem boolean NOT NULL DEFAULT false,
    offer_anyway    boolean NOT NULL DEFAULT false,
    set_aside       boolean NOT NULL DEFAULT false,
    until_passed    boolean NOT NULL DEFAULT false,
    -- Offers in a row that ended without an answer.
    silent_offers   integer NOT NULL DEFAULT 0,
    -- Places open at this instant are not offered again to whoever declined then.
    declined_at     timestamptz,
    state_since     timestamptz NOT NULL,
    -- The state before the event was cancelled or over, so that un-cancelling can reopen it.
    closed_from     text CONSTRAINT entries_closed_from_check CHECK (closed_from IN ('unconfirmed', 'waiting')),
    priority        integer NOT NULL DEFAULT 0,
    eligible        boolean NOT NULL GENERATED ALWAYS AS (
        state = 'waiting' AND (confirmed_at IS NOT NULL OR vouched) AND paused IS NULL AND NOT set_aside
        AND NOT until_passed AND (NOT contact_problem OR offer_anyway)) STORED,
    PRIMARY KEY (event_id, id),
    CONSTRAINT entries_arrival_key UNIQUE (event_id, arrival),
    CONSTRAINT entries_unconfirmed_check CHECK ((state = 'unconfirmed') = (lapses_at IS NOT NULL)),
    CONSTRAINT entries_confirmed_check CHECK (state NOT IN ('waiting', 'offered', 'accepted') OR confirmed_at IS NOT NULL OR vouched),
    CONSTRAINT entries_closed_check CHECK ((state = 'closed') = (closed_from IS NOT NULL)),
    CONSTRAINT entries_pause_check CHECK (paused_until IS NULL OR paused IS NOT NULL),
    CONSTRAINT entries_drawn_check CHECK (line_rank IS NULL OR band < 0)
);
CREATE UNIQUE INDEX entries_one_live_per_person ON entries (event_id, person_id)
    WHERE state IN ('unconfirmed', 'waiting', 'offered');
CREATE INDEX entries_order ON entries (event_id, band, round, rank) WHERE eligible;
CREATE INDEX entries_fit ON entries (event_id, wants, party, band, round, rank) WHERE eligible;
CREATE INDEX entries_decliners ON entries (event_id, declined_at) WHERE eligible AND declined_at IS NOT NULL;
-- Live entries ahead of the line, to be taken back when the order changes.
CREATE INDEX entries_ahead ON entries (event_id, id) WHERE band < 0 AND state IN ('unconfirmed', 'waiting', 'offered', 'closed');
CREATE INDEX entries_queue ON entries (event_id, state, band, round, rank);
-- Those in the line whom something hinders: few, and somebody may have to see to them.
CREATE INDEX entries_hindered ON entries (event_id, band, round, rank) WHERE state = 'waiting' AND NOT eligible;
CREATE INDEX entries_id ON entries (id);
-- In this order even a planner without statistics finds a person's latest entry on a list without walking the list.
CREATE INDEX entries_person ON entries (person_id, event_id, arrival);
CREATE INDEX entries_contact_problem ON entries (person_id) WHERE contact_problem;
CREATE INDEX entries_lapse ON entries (lapses_at) WHERE lapses_at IS NOT NULL;
CREATE INDEX entries_pause_end ON entries (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX entries_until ON entries (until) WHERE until IS NOT NULL AND NOT until_passed AND state = 'waiting';

-- What is wanted in the line: each pair of wants and size of party that somebody eligible has, a probe of the index each.
-- One statement, so that it becomes part of whatever reads from it.
CREATE FUNCTION wanted_in_line(event uuid) RETURNS TABLE (wants integer, party integer) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE pairs AS (
        (SELECT e.wants, e.party FROM entries e WHERE e.event_id = event AND e.eligible ORDER BY e.wants, e.party LIMIT 1)
        UNION ALL
        SELECT n.wants, n.party FROM pairs p, LATERAL (
            SELECT e.wants, e.party FROM entries e WHERE e.event_id = event AND e.eligible
              AND (e.wants, e.party) > (p.wants, p.party) ORDER BY e.wants, e.party LIMIT 1) n)
    SELECT pairs.wants, pairs.party FROM pairs
$$;

-- Of these, what something open would do for: at least one place of these kinds. `open` of them are, the last since
-- `youngest`; `met` are the kinds that do, or nothing where any does.
CREATE FUNCTION wanted_of_open(event uuid, open_kinds integer[], counts bigint[], opened timestamptz[])
RETURNS TABLE (wants integer, party integer, met integer[], open bigint, youngest timestamptz) LANGUAGE sql STABLE AS $$
    SELECT p.wants, p.party, w.kinds, sum(k.n)::bigint, max(k.at)
    FROM wanted_in_line(event) p LEFT JOIN wants w ON w.event_id = event AND w.id = p.wants
    JOIN unnest(open_kinds, counts, opened) AS k(kind, n, at) ON p.wants = 0 OR k.kind = ANY(w.kinds)
    GROUP BY p.wants, p.party, w.kinds
$$;

-- Live counts, kept by the triggers below: a position is a sum over a few hundred rows, never a scan of the
-- list. A bucket holds about a thousand neighbouring ranks.
CREATE TABLE entry_counts (
    event_id uuid NOT NULL REFERENCES events (id),
    state    text NOT NULL,
    eligible boolean NOT NULL,
    band     smallint NOT NULL,
    round    integer NOT NULL,
    bucket   bigint NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (event_id, state, eligible, band, round, bucket)
);

-- ── places, offers, bookings ───────────────────────────────────────────────────────────────────────────────

-- One promotion run that changed or concluded something. Repeated equal outcomes only move `last_at`.
CREATE TABLE passes (
    event_id       uuid NOT NULL REFERENCES events (id),
    number         bigint NOT NULL,
    at             timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    outcome        text NOT NULL CONSTRAINT passes_outcome_check CHECK (outcome IN
        ('offered', 'no_places', 'nobody_eligible', 'head_waits', 'batch_full', 'passive', 'closed', 'not_published',
         'after_start', 'importing', 'reordering', 'manual', 'waiting_for_draw', 'final_call', 'cannot_tell')),
    offered        integer NOT NULL,
    ended          integer NOT NULL,
    open_before    integer NOT NULL,
    policy_version integer NOT NULL,
    PRIMARY KEY (event_id, number)
);
CREATE INDEX passes_at ON passes (event_id, at);

CREATE TABLE offers (
    event_id       uuid NOT NULL REFERENCES events (id),
    id             uuid NOT NULL,
    entry_id       uuid NOT NULL,
    kind           text NOT NULL CONSTRAINT offers_kind_check CHECK (kind IN ('hold', 'call')),
    state          text NOT NULL CONSTRAINT offers_state_check CHECK (state IN
        ('pending', 'accepting', 'accepted', 'declined', 'expired', 'revoked', 'conflicted')),
    party          integer NOT NULL CONSTRAINT offers_party_check CHECK (party BETWEEN 1 AND 100),
    -- The pass that made it, or null for an offer by staff.
    pass_number    bigint,
    made_by        uuid,
    made_reason    text NOT NULL,
    policy_version integer NOT NULL,
    -- The entry's order key when it was offered.
    band           smallint NOT NULL,
    round          integer NOT NULL,
    rank           bigint NOT NULL,
    made_at        timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    -- When the click was decided upon: what counts against the deadline.
    decided_at     timestamptz,
    end_reason     text,
    reactivations  integer NOT NULL DEFAULT 0,
    -- A call tells of the places that were open then; later ones are told again when those are gone.
    told_for       timestamptz,
    tellings       integer NOT NULL DEFAULT 0,
    -- Of a hold: until when the time in which it could not be told is made up for in its deadline, and how many seconds
    -- of that were for the first letter, which was late: at most one window.
    made_up_until  timestamptz,
    late_seconds   integer NOT NULL DEFAULT 0,
    token_hash     bytea NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT offers_entry_fkey FOREIGN KEY (event_id, entry_id) REFERENCES entries (event_id, id),
    CONSTRAINT offers_policy_fkey FOREIGN KEY (event_id, policy_version) REFERENCES policies (event_id, version),
    CONSTRAINT offers_call_check CHECK ((kind = 'call') = (told_for IS NOT NULL)),
    CONSTRAINT offers_window_check CHECK (expires_at > made_at),
    CONSTRAINT offers_made_up_check CHECK (made_up_until IS NULL OR (made_up_until >= made_at AND kind = 'hold')),
    CONSTRAINT offers_late_check CHECK (late_seconds = 0 OR (late_seconds > 0 AND made_up_until IS NOT NULL)),
    CONSTRAINT offers_ended_check CHECK ((state IN ('pending', 'accepting')) = (ended_at IS NULL)),
    CONSTRAINT offers_end_reason_check CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CONSTRAINT offers_in_time_check CHECK (decided_at IS NULL OR decided_at < expires_at),
    CONSTRAINT offers_accepted_check CHECK (state NOT IN ('accepted', 'accepting') OR decided_at IS NOT NULL)
);
CREATE UNIQUE INDEX offers_one_live_per_entry ON offers (event_id, entry_id) WHERE state IN ('pending', 'accepting');
CREATE INDEX offers_live ON offers (event_id, state, expires_at);
CREATE INDEX offers_calls ON offers (event_id, told_for) WHERE kind = 'call' AND state = 'pending';
CREATE INDEX offers_entry ON offers (event_id, entry_id, made_at);
CREATE INDEX offers_pass ON offers (event_id, pass_number, band, round, rank) WHERE pass_number IS NOT NULL;
CREATE INDEX offers_by_hand ON offers (event_id, made_at) WHERE pass_number IS NULL;
CREATE INDEX offers_id ON offers (id);
CREATE INDEX offers_token ON offers (token_hash);
CREATE INDEX offers_due ON offers (expires_at) WHERE state = 'pending';

CREATE TABLE bookings (
    event_id      uuid NOT NULL REFERENCES events (id),
    id            uuid NOT NULL,
    place_id      uuid NOT NULL,
    person_id     uuid NOT NULL REFERENCES persons (id),
    offer_id      uuid,
    -- Shared by the places of one party; what the customer quotes.
    reference     text NOT NULL,
    state         text NOT NULL CONSTRAINT bookings_state_check CHECK (state IN ('confirmed', 'cancelled')),
    source        text NOT NULL CONSTRAINT bookings_source_check CHECK (source IN ('offer', 'customer', 'staff')),
    made_by       uuid,
    booked_at     timestamptz NOT NULL,
    cancelled_at  timestamptz,
    cancel_reason text,
    PRIMARY KEY (event_id, id),
    CONSTRAINT bookings_offer_fkey FOREIGN KEY (event_id, offer_id) REFERENCES offers (event_id, id),
    CONSTRAINT bookings_cancelled_check CHECK ((state = 'cancelled') = (cancelled_at IS NOT NULL)),
    CONSTRAINT bookings_cancel_reason_check CHECK ((cancelled_at IS NULL) = (cancel_reason IS NULL)),
    CONSTRAINT bookings_source_offer_check CHECK ((source = 'offer') = (offer_id IS NOT NULL))
);
CREATE UNIQUE INDEX bookings_one_per_place ON bookings (event_id, place_id) WHERE state = 'confirmed';
CREATE INDEX bookings_offer ON bookings (event_id, offer_id) WHERE offer_id IS NOT NULL;
CREATE INDEX bookings_person ON bookings (person_id);
CREATE INDEX bookings_event ON bookings (event_id, state, booked_at);
CREATE INDEX bookings_id ON bookings (id);
CREATE INDEX bookings_reference ON bookings (event_id, reference);

-- A place points at the hold or the booking that has it, so that two promises cannot be written down.
CREATE TABLE places (
    event_id         uuid NOT NULL REFERENCES events (id),
    id               uuid NOT NULL,
    number           integer NOT NULL,
    label            text,
    kind             integer NOT NULL DEFAULT 0,
    state            text NOT NULL CONSTRAINT places_state_check CHECK (state IN ('open', 'held', 'booked', 'retired')),
    retire_when_free boolean NOT NULL DEFAULT false,
    offer_id         uuid,
    booking_id       uuid,
    opened_at        timestamptz NOT NULL,
    changed_at       timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT places_number_key UNIQUE (event_id, number),
    CONSTRAINT places_offer_fkey FOREIGN KEY (event_id, offer_id) REFERENCES offers (event_id, id),
    CONSTRAINT places_booking_fkey FOREIGN KEY (event_id, booking_id) REFERENCES bookings (event_id, id),
    CONSTRAINT places_held_check CHECK ((state = 'held') = (offer_id IS NOT NULL)),
    CONSTRAINT places_booked_check CHECK ((state = 'booked') = (booking_id IS NOT NULL)),
    CONSTRAINT places_retire_check CHECK (NOT retire_when_free OR state IN ('held', 'booked'))
);
-- What a customer is told that a place is; nothing where it has no label and nothing is said of it.
CREATE FUNCTION place_name(place places) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN (place).kind = 0 THEN (place).label
                ELSE coalesce((place).label, 'place ' || (place).number) || ' (' || (
                    SELECT words FROM kinds WHERE event_id = (place).event_id AND id = (place).kind) || ')' END
$$;
CREATE UNIQUE INDEX places_label_key ON places (event_id, label) WHERE label IS NOT NULL AND state <> 'retired';
CREATE UNIQUE INDEX places_one_per_booking ON places (event_id, booking_id) WHERE booking_id IS NOT NULL;
CREATE INDEX places_open ON places (event_id, number) WHERE state = 'open';
CREATE INDEX places_offer ON places (event_id, offer_id) WHERE offer_id IS NOT NULL;
CREATE INDEX places_leaving ON places (event_id, number) WHERE retire_when_free;
CREATE INDEX places_id ON places (id);
ALTER TABLE bookings ADD CONSTRAINT bookings_place_fkey FOREIGN KEY (event_id, place_id) REFERENCES places (event_id, id);

-- Capacity counts, kept by the triggers below.
CREATE TABLE place_counts (
    event_id         uuid NOT NULL REFERENCES events (id),
    state            text NOT NULL,
    retire_when_free boolean NOT NULL,
    n                bigint NOT NULL,
    PRIMARY KEY (event_id, state, retire_when_free)
);

-- ── booking outside ────────────────────────────────────────────────────────────────────────────────────────

-- The service that keeps an event's places, where that is not this program's own ledger. Its bearer key is sealed with
-- the installation's secret: a copy of the database does not reveal it.
CREATE TABLE booking_services (
    event_id   uuid PRIMARY KEY REFERENCES events (id),
    base_url   text NOT NULL,
    sealed_key bytea NOT NULL,
    set_by     uuid,
    set_at     timestamptz NOT NULL
);

-- How a service as a whole is doing: while it rests, nobody's call is tried. Shared by all processes.
CREATE TABLE booking_circuits (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    base_url        text NOT NULL,
    -- In a row.
    failures        integer NOT NULL,
    open_until      timestamptz,
    last_error      text,
    last_error_at   timestamptz,
    last_success_at timestamptz,
    PRIMARY KEY (organization_id, base_url),
    CONSTRAINT booking_circuits_error_check CHECK ((last_error IS NULL) = (last_error_at IS NULL))
);

-- What such a service was asked: the intent, written before the call; what is still unknown; and the outcome.
CREATE TABLE booking_attempts (
    event_id       uuid NOT NULL REFERENCES events (id),
    id             uuid NOT NULL,
    offer_id       uuid NOT NULL,
    act            text NOT NULL CONSTRAINT booking_attempts_act_check CHECK (act IN ('reserve', 'release')),
    number         integer NOT NULL,
    -- Names the reservation at the service: the offer and the number of the attempt to reserve.
    key            text NOT NULL,
    outcome        text NOT NULL CONSTRAINT booking_attempts_outcome_check CHECK (outcome IN ('unresolved', 'succeeded', 'failed')),
    -- When it was asked for: what counts against a deadline.
    made_at        timestamptz NOT NULL,
    settled_at     timestamptz,
    actor          text NOT NULL,
    actor_id       uuid,
    reason         text NOT NULL,
    note           text,
    -- To be given back: these bookings, or with none whatever the key names.
    bookings       uuid[] NOT NULL DEFAULT '{}',
    tries          integer NOT NULL DEFAULT 0,
    -- A call whose fate nobody knows was made.
    uncertain      boolean NOT NULL DEFAULT false,
    last_error     text,
    next_try_at    timestamptz,
    leased_until   timestamptz,
    lease          uuid,
    -- The same key is not sent after this: from then on staff are asked.
    key_until      timestamptz NOT NULL,
    staff_asked_at timestamptz,
    PRIMARY KEY (event_id, id),
    CONSTRAINT booking_attempts_number_key UNIQUE (event_id, offer_id, act, number),
    CONSTRAINT booking_attempts_offer_fkey FOREIGN KEY (event_id, offer_id) REFERENCES offers (event_id, id),
    CONSTRAINT booking_attempts_settled_check CHECK ((outcome = 'unresolved') = (settled_at IS NULL)),
    CONSTRAINT booking_attempts_due_check CHECK ((outcome = 'unresolved') = (next_try_at IS NOT NULL)),
    CONSTRAINT booking_attempts_lease_check CHECK ((lease IS NULL) = (leased_until IS NULL)),
    CONSTRAINT booking_attempts_bookings_check CHECK (act = 'release' OR bookings = '{}')
);
CREATE UNIQUE INDEX booking_attempts_one_per_offer ON booking_attempts (event_id, offer_id)
    WHERE act = 'reserve' AND outcome IN ('unresolved', 'succeeded');
CREATE UNIQUE INDEX booking_attempts_key_key ON booking_attempts (event_id, key) WHERE act = 'reserve';
CREATE INDEX booking_attempts_due ON booking_attempts (next_try_at) WHERE outcome = 'unresolved';
CREATE INDEX booking_attempts_made ON booking_attempts (event_id, made_at, id);
CREATE INDEX booking_attempts_unresolved ON booking_attempts (event_id, made_at) WHERE outcome = 'unresolved';

-- ── releases ───────────────────────────────────────────────────────────────────────────────────────────────

-- A release is applied once per event, source and id.
CREATE TABLE releases (
    event_id  uuid NOT NULL REFERENCES events (id),
    source    text NOT NULL CONSTRAINT releases_source_check CHECK (source IN ('offer', 'booking', 'places', 'place', 'external')),
    source_id text NOT NULL,
    id        uuid NOT NULL,
    reason    text NOT NULL,
    places    uuid[] NOT NULL,
    actor     text NOT NULL,
    actor_id  uuid,
    at        timestamptz NOT NULL,
    PRIMARY KEY (event_id, id),
    CONSTRAINT releases_source_key UNIQUE (event_id, source, source_id)
);
CREATE INDEX releases_at ON releases (event_id, at DESC);

-- What other systems told of capacity that came back: applied once per event, source and id. `digest` is of all that was
-- said, so that the same id with something else is refused.
CREATE TABLE capacity_events (
    event_id uuid NOT NULL REFERENCES events (id),
    source   text NOT NULL,
    id       text NOT NULL,
    digest   bytea NOT NULL,
    places   uuid[] NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (event_id, source, id)
);

-- ── passes ─────────────────────────────────────────────────────────────────────────────────────────────────

-- One row per event: many requests, one pass. Set and cleared under the event's lock; the lease only shares
-- the work among workers.
CREATE TABLE pass_requests (
    event_id     uuid PRIMARY KEY REFERENCES events (id),
    requested_at timestamptz,
    leased_until timestamptz
);
CREATE INDEX pass_requests_due ON pass_requests (requested_at) WHERE requested_at IS NOT NULL;

-- Who was passed over, as a set: in pass `pass_number`, every entry that was eligible, had an order key below
-- (band, round, rank), and met the reason's measure. One row per pass and reason, however long the list. Where people
-- want kinds of places, `kinds` and `counts` say how many were left of each: of what they want, fewer than they need.
CREATE TABLE skips (
    event_id        uuid NOT NULL REFERENCES events (id),
    pass_number     bigint NOT NULL,
    reason          text NOT NULL CONSTRAINT skips_reason_check CHECK (reason IN ('does_not_fit', 'declined_these', 'does_not_match')),
    party_above     integer,
    declined_since  timestamptz,
    kinds           integer[],
    counts          integer[],
    band            smallint NOT NULL,
    round           integer NOT NULL,
    rank            bigint NOT NULL,
    at              timestamptz NOT NULL,
    PRIMARY KEY (event_id, pass_number, reason),
    CONSTRAINT skips_pass_fkey FOREIGN KEY (event_id, pass_number) REFERENCES passes (event_id, number),
    CONSTRAINT skips_measure_check CHECK ((reason = 'does_not_fit') = (party_above IS NOT NULL)
        AND (reason = 'declined_these') = (declined_since IS NOT NULL)
        AND (reason = 'does_not_match') = (kinds IS NOT NULL) AND (kinds IS NULL) = (counts IS NULL))
);

-- ── messages ───────────────────────────────────────────────────────────────────────────────────────────────

-- What one reader is to be told: written with the change it tells of. `event_id` is the nil id for a code asked for
-- outside any event. Bodies are rendered when sent, from these facts; no token or code is stored.
CREATE TABLE messages (
    event_id        uuid NOT NULL,
    id              uuid NOT NULL,
    organization_id uuid NOT NULL REFERENCES organizations (id),
    -- Who is told: a customer, or one of the staff who asked for it.
    person_id       uuid REFERENCES persons (id),
    staff_id        uuid REFERENCES staff (id),
    occasion        text NOT NULL CONSTRAINT messages_occasion_check CHECK (occasion IN
        ('code', 'joined', 'offer', 'call', 'accepted', 'declined', 'lapsed', 'revoked', 'list_closed', 'event_cancelled',
         'paused_by_silence', 'start_moved', 'extended', 'booking_cancelled', 'conflicted', 'answered', 'anchor')),
    subject_id      uuid NOT NULL,
    count           integer NOT NULL DEFAULT 0,
    -- Facts as they were when the message was written.
    facts           jsonb NOT NULL DEFAULT '{}',
    state           text NOT NULL CONSTRAINT messages_state_check CHECK (state IN
        ('queued', 'sending', 'told', 'suppressed', 'dead')),
    made_at         timestamptz NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    leased_until    timestamptz,
    lease           uuid,
    told_at         timestamptz,
    note            text,
    -- A code lives ten minutes and an offer has a deadline: they overtake whatever else waits to be sent.
    urgency         smallint NOT NULL GENERATED ALWAYS AS (
        CASE occasion WHEN 'code' THEN 0 WHEN 'offer' THEN 1 WHEN 'call' THEN 1 ELSE 2 END) STORED,
    PRIMARY KEY (event_id, id),
    CONSTRAINT messages_dedupe_key UNIQUE (event_id, occasion, subject_id, count),
    CONSTRAINT messages_reader_check CHECK ((person_id IS NULL) = (staff_id IS NOT NULL) AND (occasion = 'anchor') = (staff_id IS NOT NULL)),
    CONSTRAINT messages_lease_check CHECK ((state = 'sending') = (lease IS NOT NULL) AND (lease IS NULL) = (leased_until IS NULL)),
    CONSTRAINT messages_due_check CHECK ((state = 'queued') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT messages_told_check CHECK ((state = 'told') = (told_at IS NOT NULL))
);
CREATE INDEX messages_due ON messages (urgency, next_attempt_at) WHERE state = 'queued';
CREATE INDEX messages_leases ON messages (leased_until) WHERE state = 'sending';
CREATE INDEX messages_list ON messages (organization_id, state, made_at DESC, id DESC);
CREATE INDEX messages_event ON messages (event_id, state, made_at DESC, id DESC);
CREATE INDEX messages_person ON messages (person_id, made_at);
CREATE INDEX messages_subject ON messages (event_id, subject_id);
CREATE INDEX messages_id ON messages (id);

CREATE TABLE deliveries (
    event_id    uuid NOT NULL,
    message_id  uuid NOT NULL,
    attempt     integer NOT NULL,
    channel     text NOT NULL CONSTRAINT deliveries_channel_check CHECK (channel IN ('smtp', 'mailbox', 'phone')),
    contact_id  uuid REFERENCES contacts (id),
    lease       uuid NOT NULL,
    outcome     text CONSTRAINT deliveries_outcome_check CHECK (outcome IN
        ('accepted', 'transient', 'permanent', 'unknown', 'released')),
    detail      text,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (event_id, message_id, attempt),
    CONSTRAINT deliveries_message_fkey FOREIGN KEY (event_id, message_id) REFERENCES messages (event_id, id),
    CONSTRAINT deliveries_finished_check CHECK ((outcome IS NULL) = (finished_at IS NULL))
);

-- How a channel as a whole is doing. While it is paused no message is tried, so that none is charged an attempt
-- for a fault that is not its own; shared by all processes.
CREATE TABLE channels (
    channel      text PRIMARY KEY CONSTRAINT channels_channel_check CHECK (channel IN ('smtp')),
    failures     integer NOT NULL,
    since        timestamptz NOT NULL,
    paused_until timestamptz NOT NULL,
    reason       text NOT NULL,
    -- It is sure that nobody can be told: a single silence may have been a single connection's.
    down         boolean NOT NULL GENERATED ALWAYS AS (paused_until > since) STORED
);

-- When nobody could be told: [since, until). Whose deadline ran meanwhile is given the time back, where the rule says so.
CREATE TABLE outages (
    channel text NOT NULL CONSTRAINT outages_channel_check CHECK (channel IN ('smtp')),
    since   timestamptz NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (channel, since),
    CONSTRAINT outages_until_check CHECK (until > since)
);
CREATE INDEX outages_until ON outages (until);

-- Pending holds whose clock stands still, until their event starts: nobody can be told, and the rule they were made under
-- says to wait. Their deadline moves when telling works again, or when they are answered.
CREATE VIEW standing_offers AS
    SELECT o.event_id, o.id, e.starts_at
    FROM channels c
    JOIN offers o ON o.state = 'pending' AND o.kind = 'hold' AND o.expires_at > c.since
    JOIN events e ON e.id = o.event_id AND (e.starts_at IS NULL OR e.starts_at > o.expires_at)
    JOIN policies p ON p.event_id = o.event_id AND p.version = o.policy_version AND p.telling = 'extend'
    WHERE c.down;

-- ── audit ──────────────────────────────────────────────────────────────────────────────────────────────────

-- One chain per event: hash = SHA-256(previous hash ‖ length-prefixed fields). No personal data.
CREATE TABLE audit (
    event_id       uuid NOT NULL REFERENCES events (id),
    seq            bigint NOT NULL,
    at             timestamptz NOT NULL,
    actor          text NOT NULL,
    actor_id       uuid,
    act            text NOT NULL,
    subject        text NOT NULL,
    subject_id     uuid NOT NULL,
    from_state     text,
    to_state       text,
    reason         text NOT NULL,
    -- The entry concerned, where the subject is an offer, a place or a booking.
    entry_id       uuid,
    order_key      text,
    policy_version integer,
    note_digest    bytea,
    hash           bytea NOT NULL,
    PRIMARY KEY (event_id, seq)
);
CREATE INDEX audit_subject ON audit (event_id, subject_id, seq);
CREATE INDEX audit_entry ON audit (event_id, entry_id, seq) WHERE entry_id IS NOT NULL;

-- The same for acts of an organization outside its events.
CREATE TABLE organization_audit (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    seq             bigint NOT NULL,
    at              timestamptz NOT NULL,
    actor           text NOT NULL,
    actor_id        uuid,
    act             text NOT NULL,
    subject         text NOT NULL,
    subject_id      uuid NOT NULL,
    from_state      text,
    to_state        text,
    reason          text NOT NULL,
    entry_id        uuid,
    order_key       text,
    policy_version  integer,
    note_digest     bytea,
    hash            bytea NOT NULL,
    PRIMARY KEY (organization_id, seq)
);

-- The text of notes lives beside the chain, which holds salted digests, so that it can be erased.
CREATE TABLE audit_notes (
    event_id uuid NOT NULL,
    seq      bigint NOT NULL,
    salt     bytea NOT NULL,
    note     text NOT NULL,
    PRIMARY KEY (event_id, seq)
);

-- What people say is not right about their request, in their own words, and what staff answered. Words are about
-- somebody: the audit has only that and when somebody complained, and of what kind it is.
CREATE TABLE complaints (
    event_id    uuid NOT NULL,
    entry_id    uuid NOT NULL,
    -- 1, 2, 3 … of an entry.
    number      integer NOT NULL CONSTRAINT complaints_number_check CHECK (number > 0),
    about       text NOT NULL CONSTRAINT complaints_about_check CHECK (about IN
        ('position_wrong', 'passed_over', 'told_late', 'otherwise_wrong')),
    words       text NOT NULL CONSTRAINT complaints_words_check CHECK (words <> ''),
    made_at     timestamptz NOT NULL,
    answer      text CONSTRAINT complaints_answer_check CHECK (answer <> ''),
    answered_at timestamptz,
    PRIMARY KEY (event_id, entry_id, number),
    CONSTRAINT complaints_entry_fkey FOREIGN KEY (event_id, entry_id) REFERENCES entries (event_id, id),
    CONSTRAINT complaints_answered_check CHECK ((answer IS NULL) = (answered_at IS NULL))
);
CREATE UNIQUE INDEX complaints_one_open ON complaints (event_id, entry_id) WHERE answered_at IS NULL;
CREATE INDEX complaints_open ON complaints (event_id, made_at) WHERE answered_at IS NULL;
CREATE INDEX complaints_made ON complaints (made_at);

-- ── events out ─────────────────────────────────────────────────────────────────────────────────────────────

-- What other systems are told of, copied from the audits of an organization's events and numbered without a gap. Whoever
-- holds the row of `feeds` gives the numbers.
CREATE TABLE feeds (
    organization_id uuid PRIMARY KEY REFERENCES organizations (id),
    last_position   bigint NOT NULL DEFAULT 0
);

-- Up to which record an event's audit was copied.
CREATE TABLE feed_marks (
    event_id uuid PRIMARY KEY REFERENCES events (id),
    seq      bigint NOT NULL,
    at       timestamptz NOT NULL
);

CREATE TABLE transitions (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    position        bigint NOT NULL CONSTRAINT transitions_position_check CHECK (position > 0),
    event_id        uuid NOT NULL,
    seq             bigint NOT NULL,
    kind            text NOT NULL,
    at              timestamptz NOT NULL,
    act             text NOT NULL,
    reason          text NOT NULL,
    actor           text NOT NULL,
    entry_id        uuid,
    offer_id        uuid,
    place_id        uuid,
    booking_id      uuid,
    from_state      text,
    to_state        text,
    order_key       text,
    policy_version  integer,
    party           integer,
    expires_at      timestamptz,
    reference       text,
    PRIMARY KEY (organization_id, position),
    CONSTRAINT transitions_record_key UNIQUE (event_id, seq)
);
CREATE INDEX transitions_event ON transitions (event_id, position);

-- Where transitions are sent. Its signing secret is derived from its id, `generation` and the installation's secret, and
-- is not here.
CREATE TABLE webhooks (
    organization_id uuid NOT NULL REFERENCES organizations (id),
    id              uuid NOT NULL,
    url             text NOT NULL,
    -- Only these kinds; of every kind where none is named.
    kinds           text[] NOT NULL,
    generation      integer NOT NULL DEFAULT 1,
    -- After a rotation: until when the secret before signs as well.
    old_until       timestamptz,
    created_at      timestamptz NOT NULL,
    -- Up to which number of the feed deliveries were queued, and how many tests were sent.
    position        bigint NOT NULL,
    tests           bigint NOT NULL DEFAULT 0,
    stopped         text CONSTRAINT webhooks_stopped_check CHECK (stopped IN ('staff', 'gone', 'failing')),
    stopped_at      timestamptz,
    -- Failures in a row, since when, and until when it is left alone.
    failures        integer NOT NULL DEFAULT 0,
    failing_since   timestamptz,
    paused_until    timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT webhooks_stopped_at_check CHECK ((stopped IS NULL) = (stopped_at IS NULL)),
    CONSTRAINT webhooks_failing_check CHECK ((failures = 0) = (failing_since IS NULL) AND (failures = 0) = (paused_until IS NULL))
);

-- A transition on its way to an endpoint. A test has no number of the feed's: tests count down from -1.
CREATE TABLE webhook_deliveries (
    organization_id uuid NOT NULL,
    webhook_id      uuid NOT NULL,
    position        bigint NOT NULL,
    state           text NOT NULL CONSTRAINT webhook_deliveries_state_check CHECK (state IN
        ('queued', 'sending', 'delivered', 'dead')),
    -- Since when it is tried: now, for one that staff send again.
    queued_at       timestamptz NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    leased_until    timestamptz,
    lease           uuid,
    ended_at        timestamptz,
    PRIMARY KEY (organization_id, webhook_id, position),
    CONSTRAINT webhook_deliveries_webhook_fkey FOREIGN KEY (organization_id, webhook_id) REFERENCES webhooks (organization_id, id),
    CONSTRAINT webhook_deliveries_lease_check CHECK ((state = 'sending') = (lease IS NOT NULL) AND (lease IS NULL) = (leased_until IS NULL)),
    CONSTRAINT webhook_deliveries_due_check CHECK ((state = 'queued') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT webhook_deliveries_ended_check CHECK ((state IN ('delivered', 'dead')) = (ended_at IS NOT NULL))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (organization_id, webhook_id, next_attempt_at, position) WHERE state = 'queued';
CREATE INDEX webhook_deliveries_leases ON webhook_deliveries (leased_until) WHERE state = 'sending';
CREATE INDEX webhook_deliveries_list ON webhook_deliveries (organization_id, webhook_id, state, position DESC);
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (ended_at) WHERE state = 'delivered';

CREATE TABLE webhook_attempts (
    organization_id uuid NOT NULL,
    webhook_id      uuid NOT NULL,
    position        bigint NOT NULL,
    attempt         integer NOT NULL,
    lease           uuid NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    status          integer,
    detail          text,
    PRIMARY KEY (organization_id, webhook_id, position, attempt),
    CONSTRAINT webhook_attempts_delivery_fkey FOREIGN KEY (organization_id, webhook_id, position)
        REFERENCES webhook_deliveries (organization_id, webhook_id, position) ON DELETE CASCADE
);

-- ── imports ────────────────────────────────────────────────────────────────────────────────────────────────

-- A list from elsewhere. Uploaded first, so that it can be looked at before anything is written; started with what
-- its columns mean; then `rows_done` of `rows_total` people are on the list, and it goes on from there if interrupted.
CREATE TABLE imports (
    event_id     uuid NOT NULL REFERENCES events (id),
    id           uuid NOT NULL,
    file_name    text NOT NULL,
    -- The uploaded file, forgotten some days after it was imported; the command line keeps its own.
    content      bytea,
    uploaded_at  timestamptz NOT NULL,
    actor        text NOT NULL CONSTRAINT imports_actor_check CHECK (actor IN ('staff', 'key', 'operator')),
    actor_id     uuid,
    -- Which columns mean what, and what else of the event decided how it is read: {columns, zone, largest_party}.
    reading      jsonb,
    -- The file and how it is read: the same digest is the same import, and is done once.
    digest       bytea,
    tell         boolean NOT NULL DEFAULT false,
    rows_total   integer NOT NULL DEFAULT 0,
    rows_done    integer NOT NULL DEFAULT 0,
    taken        integer NOT NULL DEFAULT 0,
    -- Rows not taken because their person had an entry before, in whatever state: [[line, state], …].
    already      jsonb NOT NULL DEFAULT '[]',
    started_at   timestamptz,
    finished_at  timestamptz,
    leased_until timestamptz,
    PRIMARY KEY (event_id, id),
    CONSTRAINT imports_digest_key UNIQUE (event_id, digest),
    CONSTRAINT imports_started_check CHECK ((started_at IS NULL) = (digest IS NULL) AND (digest IS NULL) = (reading IS NULL)),
    CONSTRAINT imports_done_check CHECK (rows_done BETWEEN 0 AND rows_total),
    CONSTRAINT imports_finished_check CHECK (finished_at IS NULL OR (started_at IS NOT NULL AND rows_done = rows_total))
);
CREATE INDEX imports_content ON imports (uploaded_at) WHERE content IS NOT NULL;

-- ── triggers ───────────────────────────────────────────────────────────────────────────────────────────────


CREATE FUNCTION count_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Rows that end at zero are kept: they are few, and deleting them would cost every pass.
    IF TG_OP = 'INSERT' THEN
        INSERT INTO entry_counts AS c (event_id, state, eligible, band, round, bucket, n)
        SELECT event_id, state, eligible, band, round, rank >> 30, count(*) FROM new_rows
        GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
        ON CONFLICT (event_id, state, eligible, band, round, bucket) DO UPDATE SET n = c.n + excluded.n;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO entry_counts AS c (event_id, state, eligible, band, round, bucket, n)
        SELECT event_id, state, eligible, band, round, bucket, sum(d) FROM (
            SELECT event_id, state, eligible, band, round, rank >> 30 AS bucket, 1 AS d FROM new_rows
            UNION ALL
            SELECT event_id, state, eligible, band, round, rank >> 30, -1 FROM old_rows) changes
        GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(d) <> 0 ORDER BY 1, 2, 3, 4, 5, 6
        ON CONFLICT (event_id, state, eligible, band, round, bucket) DO UPDATE SET n = c.n + excluded.n;
    ELSE
        INSERT INTO entry_counts AS c (event_id, state, eligible, band, round, bucket, n)
        SELECT event_id, state, eligible, band, round, rank >> 30, -count(*) FROM old_rows
        GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
        ON CONFLICT (event_id, state, eligible, band, round, bucket) DO UPDATE SET n = c.n + excluded.n;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER entries_counted_insert AFTER INSERT ON entries
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_entries();
CREATE TRIGGER entries_counted_update AFTER UPDATE ON entries
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_entries();
CREATE TRIGGER entries_counted_delete AFTER DELETE ON entries
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_entries();

CREATE FUNCTION count_places() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO place_counts AS c (event_id, state, retire_when_free, n)
        SELECT event_id, state, retire_when_free, count(*) FROM new_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (event_id, state, retire_when_free) DO UPDATE SET n = c.n + excluded.n;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO place_counts AS c (event_id, state, retire_when_free, n)
        SELECT event_id, state, retire_when_free, sum(d) FROM (
            SELECT event_id, state, retire_when_free, 1 AS d FROM new_rows
            UNION ALL
            SELECT event_id, state, retire_when_free, -1 FROM old_rows) changes
        GROUP BY 1, 2, 3 HAVING sum(d) <> 0 ORDER BY 1, 2, 3
        ON CONFLICT (event_id, state, retire_when_free) DO UPDATE SET n = c.n + excluded.n;
    ELSE
        INSERT INTO place_counts AS c (event_id, state, retire_when_free, n)
        SELECT event_id, state, retire_when_free, -count(*) FROM old_rows GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (event_id, state, retire_when_free) DO UPDATE SET n = c.n + excluded.n;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER places_counted_insert AFTER INSERT ON places
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_places();
CREATE TRIGGER places_counted_update AFTER UPDATE ON places
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_places();
CREATE TRIGGER places_counted_delete AFTER DELETE ON places
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_places();

-- The audit can be appended to, nothing else.
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_rows BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER organization_audit_rows BEFORE UPDATE OR DELETE ON organization_audit FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER organization_audit_truncate BEFORE TRUNCATE ON organization_audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
