//! The link of a mail. Its token leaves the address at once; opening it changes nothing, however often a program that
//! looks into mails does.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::super::WebState;
use super::super::client::ClientAddress;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::headers::NO_REFERRER;
use super::super::limits::Limit;
use super::super::page::{Layout, Page};
use crate::db::DbError;
use crate::domain::secret::token_hash;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/o/{token}", get(open))
}

/// One answer for a link that was altered, is somebody else's invention, or was replaced by a newer one.
#[derive(Template)]
#[template(path = "customer/link_gone.html")]
struct LinkGonePage {
    layout: Layout,
}

async fn open(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    Path(token): Path<String>,
) -> Result<Response, Error> {
    state.count(Limit::Token, address).await?;
    match state.db.find_offer_by_token(&token_hash(&token)).await {
        Ok(offer) => Ok(([NO_REFERRER], Redirect::to(&format!("/offers/{}", offer.id))).into_response()),
        Err(DbError::NotFound) => {
            let layout =
                Layout::bare("This link does not work any more", false, state.db.session_now().await?);
            Ok((StatusCode::NOT_FOUND, [NO_REFERRER], Page(LinkGonePage { layout })).into_response())
        }
        Err(error) => Err(error.into()),
    }
}
