//! What is said between Fairlist and a booking service, as JSON. The contract is written down in `tests/booking-service.yaml`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Told;
use crate::domain::ids::PlaceId;
use crate::domain::outside::fit_reference;

/// What is asked for: places for somebody, under a key.
#[derive(Clone, Debug, Serialize)]
pub struct Ask {
    /// In the address, not in the body.
    #[serde(skip)]
    pub key: String,
    /// Of which event.
    pub event: EventSheet,
    /// For whom.
    pub customer: CustomerSheet,
    /// Which places: all of them, or none.
    pub places: Vec<PlaceSheet>,
}

/// The event, as a service is told of it.
#[derive(Clone, Debug, Serialize)]
pub struct EventSheet {
    /// Its id here.
    pub id: Uuid,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
}

/// The customer, as a service is told of them.
#[derive(Clone, Debug, Serialize)]
pub struct CustomerSheet {
    /// Their id here.
    pub id: Uuid,
    /// Their name.
    pub name: String,
    /// Where they are reached.
    pub email: Option<String>,
}

/// A place, as a service is told of it.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceSheet {
    /// Its id here: the same in every call.
    pub id: Uuid,
    /// Its number within the event.
    pub number: i32,
    /// What it is called.
    pub label: Option<String>,
}

/// Which places are given back; with none named, all of the reservation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Release<'a> {
    pub places: &'a [Uuid],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Reserved,
    Confirmed,
    Released,
    Refused,
    Unknown,
}

/// Every answer has this shape.
#[derive(Clone, Debug, Deserialize)]
struct Reservation {
    key: String,
    state: State,
    #[serde(default)]
    reference: Option<String>,
    /// Which places are not to be had; only of `refused`.
    #[serde(default)]
    gone: Vec<Uuid>,
    /// Which places of the reservation were given back.
    #[serde(default)]
    released: Vec<Uuid>,
}

/// What an answer says of `key`, or nothing where it does not keep to the contract. `given_back` are the places that the
/// question gave back.
pub(super) fn read(status: u16, body: &[u8], key: &str, given_back: &[Uuid]) -> Option<Told> {
    let said: Reservation = serde_json::from_slice(body).ok()?;
    if said.key != key {
        return None;
    }
    match (status, said.state) {
        (200, State::Confirmed)
            if !given_back.is_empty() && given_back.iter().all(|place| said.released.contains(place)) =>
        {
            Some(Told::Released)
        }
        (200 | 201, State::Confirmed) => Some(Told::Confirmed(fit_reference(&said.reference?)?)),
        (200 | 201, State::Reserved) => Some(Told::Reserved),
        (200 | 410, State::Released) => Some(Told::Released),
        (404, State::Unknown) => Some(Told::Unknown),
        (409, State::Refused) => Some(Told::Gone(said.gone.into_iter().map(PlaceId).collect())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_where_status_key_and_state_go_together() {
        let told = |status, body: &str| read(status, body.as_bytes(), "k", &[]);
        let confirmed = r#"{"key":"k","state":"confirmed","reference":"R1"}"#;
        assert_eq!(told(201, confirmed), Some(Told::Confirmed("R1".to_owned())));
        assert_eq!(told(404, r#"{"key":"k","state":"unknown"}"#), Some(Told::Unknown));
        assert_eq!(told(409, r#"{"key":"k","state":"refused"}"#), Some(Told::Gone(vec![])));
        for (status, body) in [
            (404, "{}"),
            (404, "<html>"),
            (202, confirmed),
            (200, r#"{"key":"other","state":"confirmed","reference":"R1"}"#),
            (200, r#"{"key":"k","state":"confirmed"}"#),
            (200, r#"{"key":"k","state":"confirmed","reference":"a\nb"}"#),
            (200, r#"{"key":"k","state":"refused"}"#),
        ] {
            assert_eq!(told(status, body), None, "{status} {body}");
        }
    }
}
