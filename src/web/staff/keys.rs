//! Keys for other programs: made, shown once, taken back.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chrono::Duration;
use serde::Deserialize;
use std::collections::HashMap;

use super::super::WebState;
use super::super::api::signed;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Section, Tone};
use super::Staff;
use crate::db::keys::ApiKey;
use crate::domain::ids::KeyId;
use crate::domain::key::{KeyName, Scope};
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::keys::{self, MakeOutcome, Maker, WantedKey};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/keys", get(show).post(make)).route("/keys/{key}/revoke", post(revoke))
}

/// How long a key may live, by the form's word.
const LIVES: [(&str, &str, i64); 3] =
    [("90", "90 days", 90), ("365", "1 year", 365), ("730", "2 years", 730)];

/// What was typed. Each scope is a field of its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct KeyForm {
    name: String,
    lives: String,
    #[serde(flatten)]
    scopes: HashMap<String, String>,
}

/// What was just made, and is shown once.
struct Made {
    name: String,
    token: String,
    /// Where signed capacity is to be sent, and the secret to sign it with.
    signing: Option<(String, String)>,
}

#[derive(Template)]
#[template(path = "staff/keys.html")]
struct KeysPage {
    layout: Layout,
    keys: Vec<ApiKey>,
    form: KeyForm,
    errors: Errors,
    made: Option<Made>,
    now: chrono::DateTime<chrono::Utc>,
}

impl KeysPage {
    async fn new(
        state: &WebState,
        staff: &Staff,
        form: KeyForm,
        errors: Errors,
        made: Option<Made>,
    ) -> Result<Self, Error> {
        let keys = state.db.keys(staff.member.organization).await?;
        let layout = staff.layout("Keys", Section::Keys).await?;
        Ok(Self { layout, keys, form, errors, made, now: staff.now })
    }

    fn scopes(&self) -> Vec<(String, &'static str, bool)> {
        Scope::ALL
            .iter()
            .map(|scope| {
                let field = format!("scope.{scope}");
                let chosen = self.form.scopes.contains_key(&field);
                (field, scope.label(), chosen)
            })
            .collect()
    }

    fn lives() -> Vec<(&'static str, &'static str)> {
        LIVES.iter().map(|(word, label, _)| (*word, *label)).collect()
    }

    fn live(&self) -> usize {
        self.keys.iter().filter(|key| key.is_live(self.now)).count()
    }

    fn sentence(&self) -> String {
        match self.live() {
            0 => "No program can act for this organization.".to_owned(),
            1 => "1 key is good.".to_owned(),
            n => format!("{n} keys are good."),
        }
    }

    fn state(&self, key: &ApiKey) -> (&'static str, &'static str) {
        if key.revoked_at.is_some() {
            ("revoked", "taken back")
        } else if key.is_live(self.now) {
            ("accepted", "good")
        } else {
            ("expired", "expired")
        }
    }

    fn when(&self, at: &chrono::DateTime<chrono::Utc>) -> When {
        When::new(*at, chrono_tz::UTC, self.now)
    }

    fn good_for(key: &ApiKey) -> String {
        key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
    }
}

async fn show(State(state): State<WebState>, staff: Staff) -> Result<Page<KeysPage>, Error> {
    staff.require(Act::ManageKeys)?;
    let form = KeyForm { lives: "365".to_owned(), ..KeyForm::default() };
    Ok(Page(KeysPage::new(&state, &staff, form, Errors::default(), None).await?))
}

async fn make(
    State(state): State<WebState>,
    staff: Staff,
    VerifiedForm(form): VerifiedForm<KeyForm>,
) -> Result<Response, Error> {
    staff.require(Act::ManageKeys)?;
    let mut errors = Errors::default();
    let name = errors.check("name", KeyName::parse(&form.name));
    let days = LIVES.iter().find(|(word, ..)| *word == form.lives).map(|(.., days)| *days);
    let days = errors.check("lives", days.ok_or("Choose how long it is good."));
    let chosen = |scope: &&Scope| form.scopes.contains_key(&format!("scope.{scope}"));
    let scopes: Vec<Scope> = Scope::ALL.iter().filter(chosen).copied().collect();
    if scopes.is_empty() {
        errors.add("scopes", "Choose what the key is good for.");
    }
    let (Some(name), Some(days), false) = (name, days, scopes.is_empty()) else {
        let page = KeysPage::new(&state, &staff, form, errors, None).await?;
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response());
    };
    let wanted = WantedKey { name, scopes, life: Duration::days(days) };
    let (organization, by) = (staff.member.organization, Maker::Staff(staff.member.id));
    let MakeOutcome::Made(key, token) =
        keys::make(&state.db, &state.secret, organization, wanted, by).await?
    else {
        return Err(Error::internal("a key that an owner may not make"));
    };
    let signing = signed::signing(&state, &key);
    let made = Made { name: key.name, token, signing };
    // Not a redirect: the key is nowhere but in this answer.
    let form = KeyForm { lives: "365".to_owned(), ..KeyForm::default() };
    let page = KeysPage::new(&state, &staff, form, Errors::default(), Some(made)).await?;
    Ok((StatusCode::CREATED, Page(page)).into_response())
}

async fn revoke(
    State(state): State<WebState>,
    staff: Staff,
    Path(key): Path<KeyId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    staff.require(Act::ManageKeys)?;
    let revoked = state.db.revoke_key(staff.member.organization, key, staff.actor()).await?;
    let (tone, said) = match revoked {
        0 => (Tone::Note, "Nothing was done: this key was taken back before."),
        1 => (Tone::Done, "Taken back: whoever shows this key is refused from now on."),
        _ => (
            Tone::Done,
            "Taken back: whoever shows this key, or one that a program made with it, is refused from now on.",
        ),
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to("/staff/keys"))
}
