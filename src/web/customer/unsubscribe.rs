//! `/unsubscribe/{token}`: stops mail that is not essential, and nothing else. A place in a queue does not depend on
//! it.
//!
//! The address stands in the mail and in its `List-Unsubscribe` header. Mail programs and scanners look at it: GET
//! only shows a page. A mail program that unsubscribes posts without a session and without a form token, and may not
//! be redirected (RFC 8058), so the token alone is the proof, and a post is answered by a page.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Layout, Page};
use crate::db::contacts::News;
use crate::domain::ids::PersonId;

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/unsubscribe/{token}", get(show).post(stop))
        .route("/unsubscribe/{token}/again", post(again))
}

#[derive(Template)]
#[template(path = "customer/unsubscribe.html")]
struct UnsubscribePage {
    layout: Layout,
    organization: String,
    token: String,
    stopped: bool,
    /// What the button that was pressed did.
    done: bool,
}

async fn show(
    State(state): State<WebState>,
    Path(token): Path<String>,
) -> Result<Page<UnsubscribePage>, Error> {
    let person = person(&state, &token)?;
    page(&state, person, token, false).await
}

async fn stop(
    State(state): State<WebState>,
    Path(token): Path<String>,
) -> Result<Page<UnsubscribePage>, Error> {
    let person = person(&state, &token)?;
    state.db.stop_news(person).await?;
    page(&state, person, token, true).await
}

async fn again(
    State(state): State<WebState>,
    Path(token): Path<String>,
) -> Result<Page<UnsubscribePage>, Error> {
    let person = person(&state, &token)?;
    state.db.resume_news(person).await?;
    page(&state, person, token, true).await
}

/// One answer for every token that is not ours.
fn person(state: &WebState, token: &str) -> Result<PersonId, Error> {
    state.secret.unsubscribe_person(token).ok_or(Error::NotFound)
}

/// Names nobody: whoever was forwarded the link learns whose mail it is, not whose place.
async fn page(
    state: &WebState,
    person: PersonId,
    token: String,
    done: bool,
) -> Result<Page<UnsubscribePage>, Error> {
    let News { organization, organization_name, organization_contact, stopped } =
        state.db.news(person).await?;
    let layout = Layout::bare("Mail preferences", false, state.db.session_now().await?)
        .of(organization, &organization_name)
        .ask(&organization_contact);
    Ok(Page(UnsubscribePage { layout, organization: organization_name, token, stopped, done }))
}
