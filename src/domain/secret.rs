//! Offer tokens, keys of programs and six-digit codes, derived from the installation's secret.
//!
//! Deriving them means that none needs to be stored: a message is rendered when it is sent, and a copy of
//! the database holds only hashes. Reactivating an offer gives it a new token, so old links stop working.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::ids::{CodeId, EventId, KeyId, OfferId, OrganizationId, PersonId, WebhookId};
use super::key::KEY_PREFIX;

/// The installation's secret: at least 32 bytes, the same for every process that shares a database.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secret is shorter than 32 bytes.
#[derive(Debug, thiserror::Error)]
#[error("the secret must have at least 32 bytes")]
pub struct SecretTooShort;

impl Secret {
    /// # Errors
    /// When there are fewer than 32 bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, SecretTooShort> {
        if bytes.len() < 32 { Err(SecretTooShort) } else { Ok(Self(bytes)) }
    }

    fn derive(&self, purpose: &[u8], id: &[u8], count: i32) -> [u8; 32] {
        // HMAC takes keys of every length: this cannot fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return [0; 32] };
        mac.update(purpose);
        mac.update(id);
        mac.update(&count.to_be_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The token in the link of an offer after `reactivations` reactivations: 64 hexadecimal digits.
    #[must_use]
    pub fn offer_token(&self, offer: OfferId, reactivations: i32) -> String {
        hex::encode(self.derive(b"offer", offer.0.as_bytes(), reactivations))
    }

    /// The end of an event's chain of secrets for draws: from it every other of the chain follows.
    #[must_use]
    pub fn draw_chain(&self, event: EventId, chain: i32) -> [u8; 32] {
        self.derive(b"draw", event.0.as_bytes(), chain)
    }

    /// What a booking service must be told to be believed, sealed so that a copy of the database does not reveal it.
    /// `nonce` is random.
    #[must_use]
    pub fn seal_booking_key(&self, event: EventId, nonce: [u8; NONCE_LEN], key: &str) -> Option<Vec<u8>> {
        let mut sealed = key.as_bytes().to_vec();
        let nonce_then = nonce.to_vec();
        self.booking_sealer(event)?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(event.0.as_bytes()),
                &mut sealed,
            )
            .ok()?;
        Some([nonce_then, sealed].concat())
    }

    /// The same, opened; nothing where it was sealed with another secret, or for another event.
    #[must_use]
    pub fn open_booking_key(&self, event: EventId, sealed: &[u8]) -> Option<String> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened =
            self.booking_sealer(event)?.open_in_place(nonce, Aad::from(event.0.as_bytes()), &mut sealed);
        String::from_utf8(opened.ok()?.to_vec()).ok()
    }

    fn booking_sealer(&self, event: EventId) -> Option<LessSafeKey> {
        let key = self.derive(b"booking service", event.0.as_bytes(), 0);
        Some(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?))
    }

    /// The six digits of a code.
    #[must_use]
    pub fn code_digits(&self, code: CodeId) -> String {
        let bytes = self.derive(b"code", code.0.as_bytes(), 0);
        let number = u64::from_be_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]);
        format!("{:06}", number % 1_000_000)
    }

    /// The token in the link by which a person stops what is not essential. It stands for the person, so it is the
    /// same in every mail, and says who they are: nothing needs to be stored.
    #[must_use]
    pub fn unsubscribe_token(&self, person: PersonId) -> String {
        let proof = self.derive(b"unsubscribe", person.0.as_bytes(), 0);
        format!("{}{}", person.0.simple(), hex::encode(proof))
    }

    /// Whose token this is, if it is one of ours.
    #[must_use]
    pub fn unsubscribe_person(&self, token: &str) -> Option<PersonId> {
        let person = PersonId(token.get(..32)?.parse().ok()?);
        let ours = self.unsubscribe_token(person);
        bool::from(ours.as_bytes().ct_eq(token.as_bytes())).then_some(person)
    }

    /// The key by which deliveries to an organization's webhook are signed, after `generation` of them. Ids of webhooks
    /// come from forms: the same one in another organization has another key.
    #[must_use]
    pub fn webhook_key(&self, organization: OrganizationId, webhook: WebhookId, generation: i32) -> [u8; 32] {
        let id = [organization.0.into_bytes(), webhook.0.into_bytes()].concat();
        self.derive(b"webhook", &id, generation)
    }

    /// What a program with the key of this id shows. Ids of keys are made by us and belong to one key for ever.
    #[must_use]
    pub fn api_key(&self, key: KeyId) -> String {
        format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(self.derive(b"api key", key.0.as_bytes(), 0)))
    }

    /// The key by which the program with this key signs what it tells us.
    #[must_use]
    pub fn telling_key(&self, key: KeyId) -> [u8; 32] {
        self.derive(b"telling", key.0.as_bytes(), 0)
    }

    /// Whether `typed` are the digits of `code`; takes the same time whatever differs.
    #[must_use]
    pub fn code_matches(&self, code: CodeId, typed: &str) -> bool {
        self.code_digits(code).as_bytes().ct_eq(typed.as_bytes()).into()
    }
}

/// What is stored of a token.
#[must_use]
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_reactivated_offer_has_another_token_and_short_secrets_are_refused() {
        let secret = Secret::new(vec![7; 32]).expect("long enough");
        let offer = OfferId(Uuid::nil());
        assert_ne!(secret.offer_token(offer, 0), secret.offer_token(offer, 1));
        assert!(Secret::new(vec![7; 31]).is_err());
    }

    #[test]
    fn a_token_to_unsubscribe_names_its_person_and_cannot_be_made_up() {
        let secret = Secret::new(vec![5; 32]).expect("long enough");
        let person = PersonId(Uuid::from_u128(7));
        let token = secret.unsubscribe_token(person);
        assert_eq!(secret.unsubscribe_person(&token), Some(person));
        let other = PersonId(Uuid::from_u128(8));
        let forged = format!("{}{}", other.0.simple(), &token[32..]);
        for wrong in [forged.as_str(), "", &token[..40], &format!("{token}0"), &"é".repeat(40)] {
            assert_eq!(secret.unsubscribe_person(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_sealed_key_opens_for_its_event_and_installation_only() {
        let secret = Secret::new(vec![5; 32]).expect("long enough");
        let (event, other) = (EventId(Uuid::from_u128(1)), EventId(Uuid::from_u128(2)));
        let sealed = secret.seal_booking_key(event, [1; 12], "hush").expect("sealed");
        assert!(!sealed.windows(4).any(|bytes| bytes == b"hush"));
        assert_eq!(secret.open_booking_key(event, &sealed).as_deref(), Some("hush"));
        assert_eq!(secret.open_booking_key(other, &sealed), None);
        assert_eq!(Secret::new(vec![6; 32]).expect("long").open_booking_key(event, &sealed), None);
        assert_eq!(secret.open_booking_key(event, &sealed[..5]), None);
    }

    #[test]
    fn a_webhook_of_the_same_id_elsewhere_has_another_key() {
        let secret = Secret::new(vec![9; 32]).expect("long enough");
        let webhook = WebhookId(Uuid::from_u128(7));
        let key = |organization, generation| {
            secret.webhook_key(OrganizationId(Uuid::from_u128(organization)), webhook, generation)
        };
        assert_ne!(key(1, 1), key(2, 1));
        assert_ne!(key(1, 1), key(1, 2));
    }

    #[test]
    fn a_code_has_six_digits_and_only_they_match() {
        let secret = Secret::new(vec![9; 32]).expect("long enough");
        let code = CodeId(Uuid::max());
        let digits = secret.code_digits(code);
        assert_eq!(digits.len(), 6);
        assert!(secret.code_matches(code, &digits));
        assert!(!secret.code_matches(code, &format!("{digits} ")));
    }
}
