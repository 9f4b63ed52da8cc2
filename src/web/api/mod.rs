//! `/v1`: everything that the pages do, for other programs, as JSON. The same use cases as the pages; what is different
//! is how somebody says who they are, and how they are refused.
//!
//! Each file is a family of addresses. A handler says in its annotation what it takes and answers: the description at
//! `/v1/openapi.json` and the page `/v1/docs` are made of that, so neither can lag behind.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::UtoipaMethodRouter;

use super::WebState;

pub mod audit;
pub mod booking_service;
pub mod bookings;
pub mod caller;
pub mod capacity;
pub mod complaints;
pub mod docs;
pub mod draws;
pub mod entries;
pub mod events;
pub mod guard;
pub mod imports;
pub mod json;
pub mod keys;
mod known;
pub mod lines;
pub mod offering;
pub mod offers;
pub mod people;
pub mod places;
pub mod problem;
pub mod records;
pub mod rule;
pub mod running;
pub mod signed;
pub mod simulation;
pub mod status;
pub mod transitions;
pub mod views;
pub mod webhooks;

/// Routes, with what is said of them.
pub struct Api {
    router: Router<WebState>,
    described: OpenApi,
}

impl Api {
    fn new() -> Self {
        // Acts are written `thing:act`; inside, each act is a part of the path of its own (see `split_act`).
        Self { router: Router::new(), described: docs::Described::openapi() }
    }

    /// One address with one or more methods, as `utoipa_axum::routes!` gives it.
    #[must_use]
    pub fn with(mut self, (schemas, paths, methods): UtoipaMethodRouter<WebState>) -> Self {
        let path = paths.paths.keys().next().map(|path| internal(path)).unwrap_or_default();
        self.router = self.router.route(&path, methods);
        for (path, mut item) in paths.paths {
            name_operations(&mut item);
            match self.described.paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => {
                    self.described.paths.paths.insert(path, item);
                }
            }
        }
        let known = &mut self.described.components.get_or_insert_default().schemas;
        for (name, schema) in schemas {
            let before = known.insert(name.clone(), schema);
            debug_assert!(before.is_none_or(|before| before == known[&name]), "two things are called {name}");
        }
        self
    }
}

/// Generators of clients name their functions so: the family and the act, unique in the whole.
fn name_operations(item: &mut utoipa::openapi::PathItem) {
    let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
    for operation in operations.into_iter().flatten() {
        let family = operation.tags.iter().flatten().next().map(|tag| tag.to_lowercase().replace(' ', "_"));
        if let (Some(family), Some(act)) = (family, &operation.operation_id) {
            operation.operation_id = Some(format!("{family}_{act}"));
        }
    }
}

fn all() -> Api {
    let api = Api::new();
    let api = people::add(api);
    let api = events::add(api);
    let api = entries::add(api);
    let api = lines::add(api);
    let api = complaints::add(api);
    let api = imports::add(api);
    let api = offers::add(api);
    let api = offering::add(api);
    let api = bookings::add(api);
    let api = booking_service::add(api);
    let api = places::add(api);
    let api = capacity::add(api);
    let api = running::add(api);
    let api = draws::add(api);
    let api = rule::add(api);
    let api = simulation::add(api);
    let api = records::add(api);
    let api = audit::add(api);
    let api = keys::add(api);
    let api = webhooks::add(api);
    transitions::add(api)
}

/// What the API takes and answers, in `OpenAPI` 3.1.
#[must_use]
pub fn described() -> OpenApi {
    docs::complete(all().described)
}

/// Everything under `/v1`.
pub fn router(state: &WebState) -> Router<WebState> {
    let Api { router, described } = all();
    let described = docs::complete(described);
    router
        .layer(middleware::from_fn_with_state(known::known(&described), known::check))
        .layer(middleware::from_fn_with_state(state.clone(), guard::guard))
        .layer(DefaultBodyLimit::max(guard::BODY_LIMIT))
        .merge(docs::router(&described))
}

/// `/v1/offers/{offer}:accept` as the router knows it: an act is a part of its own.
fn internal(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((front, last)) => match last.rsplit_once(':') {
            Some((thing, act)) => format!("{front}/{thing}/act:{act}"),
            None => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

/// The same for a request's address, before it is routed: the router's parameters take whole parts of a path.
pub(super) fn split_act<B>(mut request: axum::http::Request<B>) -> axum::http::Request<B> {
    let uri = request.uri();
    if !uri.path().starts_with("/v1/") || *request.method() == Method::OPTIONS || !uri.path().contains(':') {
        return request;
    }
    let path = internal(uri.path());
    let path = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = path.parse().ok();
    if parts.path_and_query.is_some()
        && let Ok(uri) = Uri::from_parts(parts)
    {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_is_a_part_of_the_path_of_its_own() {
        assert_eq!(internal("/v1/offers/{offer}:accept"), "/v1/offers/{offer}/act:accept");
        assert_eq!(internal("/v1/offers/{offer}"), "/v1/offers/{offer}");
        let request = |uri: &str| axum::http::Request::builder().uri(uri).body(()).expect("a request");
        assert_eq!(split_act(request("/v1/offers/7:accept?x=a:b")).uri(), "/v1/offers/7/act:accept?x=a:b");
        assert_eq!(split_act(request("/e/a:b")).uri(), "/e/a:b");
    }
}
