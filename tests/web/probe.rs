//! The program's router with a few handlers of the tests' own, to try what every request passes through.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use fairlist::domain::ids::{OfferId, PersonId};
use fairlist::domain::role::Act;
use fairlist::web::csrf::{NoFields, VerifiedForm};
use fairlist::web::customer::Customer;
use fairlist::web::extract::{Path, Query};
use fairlist::web::page::{Section, Tone};
use fairlist::web::staff::Staff;
use fairlist::web::{self, Error, WebState};
use serde::Deserialize;
use uuid::Uuid;

use crate::harness::site::Site;

#[derive(Deserialize)]
struct Word {
    #[serde(default)]
    word: String,
}

#[derive(Deserialize)]
struct Numbered {
    #[expect(dead_code, reason = "only its parsing is tried")]
    page: u32,
}

/// The program's router with a few handlers of the test's own.
pub fn router(state: WebState) -> Router {
    let staff = web::staff::router()
        .route("/probe", get(async |staff: Staff| staff.member.email))
        .route(
            "/probe/token",
            get(async |staff: Staff| staff.layout("x", Section::Now).await.map(|layout| layout.form_token)),
        )
        .route("/probe/owner", get(async |staff: Staff| staff.require(Act::ManageTeam)))
        .route(
            "/probe/flash",
            get(async |staff: Staff| staff.flash(Tone::Done, "It was done.").await.map(|()| "ok")).post(
                async |staff: Staff, VerifiedForm(form): VerifiedForm<Word>| {
                    staff
                        .layout("x", Section::Now)
                        .await
                        .map(|layout| format!("{} {:?}", form.word, layout.flashes))
                },
            ),
        );
    let customers = web::customer::router()
        .route(
            "/probe/form",
            get(async |customer: Customer| customer.form_layout("x").await.map(|layout| layout.form_token)),
        )
        .route("/probe/form", post(async |VerifiedForm(form): VerifiedForm<Word>| form.word))
        .route(
            "/probe/in",
            post(async |mut customer: Customer, VerifiedForm(NoFields {}): VerifiedForm<NoFields>| {
                customer.sign_in(PersonId(Uuid::max())).await.map(|()| "in")
            }),
        )
        .route("/probe/who", get(async |customer: Customer| format!("{:?}", customer.persons)))
        .route("/probe/offer/{id}", get(async |Path(id): Path<OfferId>| id.to_string()))
        .route("/probe/query", get(async |Query(_): Query<Numbered>| "ok"))
        .route("/probe/panic", get(async || -> &'static str { panic!("a secret in a panic") }))
        .route("/probe/internal", get(async || Error::internal("a secret in an error")))
        .route(
            "/probe/sql",
            get(async |State(state): State<WebState>| {
                state.db.session_now().await.map_err(Error::from).map(|now| now.to_string())
            }),
        );
    let routes = Router::new()
        .nest("/staff", staff.layer(web::session::staff_layer(&state.db, &state.settings)))
        .merge(customers.layer(web::session::customer_layer(&state.db, &state.settings)));
    web::assemble(state, routes).expect("a router")
}

impl Site {
    /// With the test's own handlers.
    pub async fn probed(start: &str, base: &str) -> Self {
        Self::with(start, base, router).await
    }
}
