//! Ids as types of their own, so that an entry's id cannot be passed where an offer's is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .format(Some(utoipa::openapi::schema::SchemaFormat::KnownFormat(
                        utoipa::openapi::schema::KnownFormat::Uuid,
                    )))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )+};
}

ids! {
    /// Who runs events.
    OrganizationId,
    /// A member of an organization's staff.
    StaffId,
    /// What a program of an organization shows with its requests.
    KeyId,
    /// A customer of one organization.
    PersonId,
    /// One address or number of a person.
    ContactId,
    /// A six-digit code that was sent.
    CodeId,
    /// Anything with limited places.
    EventId,
    /// A person's request on one list.
    EntryId,
    /// A temporary right to claim.
    OfferId,
    /// One unit of an event.
    PlaceId,
    /// A confirmed place.
    BookingId,
    /// What a booking service was asked.
    AttemptId,
    /// Places that came back together.
    ReleaseId,
    /// What one person is to be told.
    MessageId,
    /// A list brought in from a file.
    ImportId,
    /// Where transitions are sent.
    WebhookId,
}
