//! The rules, as pure code: no async, no HTTP, no SQL, no clock. Everything here can be tested with values.

pub mod address;
pub mod allocation;
pub mod attribute;
pub mod audit;
pub mod booking;
pub mod calendar;
pub mod chain;
pub mod complaint;
pub mod contact;
pub mod delivery;
pub mod draw;
pub mod entry;
pub mod event;
pub mod ids;
pub mod import;
pub mod key;
pub mod kinds;
pub mod label;
pub mod message;
pub mod offer;
pub mod outside;
pub mod password;
pub mod place;
pub mod placing;
pub mod policy;
pub mod policy_changes;
pub mod policy_words;
pub mod preview;
pub mod reason;
pub mod role;
pub mod secret;
pub mod sheet;
pub mod simulation;
pub mod slug;
pub mod standing;
pub mod telling;
pub mod trail;
pub mod transition;
pub mod webhook;
pub mod when;

/// A closed set of words that are the same in code, SQL, pages and API.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $variant_doc:literal])+ $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $variant_doc])+ #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it is stored and shown to programs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The member named by `text`, if there is one.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        // The same words, and what each means, in the description of the API.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let said = |lines: &[&str]| lines.concat().trim().to_owned();
                let each: std::collections::BTreeMap<&str, String> =
                    [$(($text, said(&[$($variant_doc),+]))),+].into();
                let each = serde_json::to_value(each).unwrap_or_default();
                let extensions = utoipa::openapi::extensions::ExtensionsBuilder::new();
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some(Self::ALL.iter().map(|word| word.as_str())))
                    .description(Some(said(&[$($doc),+])))
                    .extensions(Some(extensions.add("x-enumDescriptions", each).build()))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;
