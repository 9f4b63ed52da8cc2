//! What a query may name. A name that an address does not know is refused: whoever misspells `after` would begin at the
//! beginning again, and not notice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use url::form_urlencoded;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use super::internal;
use super::problem::Refusal;

/// By method and address, as the router knows it.
pub(super) type Known = Arc<HashMap<(&'static str, String), HashSet<String>>>;

/// What the description says of each operation.
pub(super) fn known(described: &OpenApi) -> Known {
    let mut known = HashMap::new();
    for (path, item) in &described.paths.paths {
        let operations = [
            ("GET", &item.get),
            ("PUT", &item.put),
            ("POST", &item.post),
            ("PATCH", &item.patch),
            ("DELETE", &item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                known.insert((method, internal(path)), names(operation));
            }
        }
    }
    Arc::new(known)
}

fn names(operation: &Operation) -> HashSet<String> {
    let parameters = operation.parameters.iter().flatten();
    let in_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    in_query.collect()
}

/// The layer.
pub(super) async fn check(State(known): State<Known>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = match request.method().as_str() {
        "HEAD" | "GET" => "GET",
        "PUT" => "PUT",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => return next.run(request).await,
    };
    let names = path.and_then(|path| known.get(&(method, path)));
    let query = request.uri().query().unwrap_or_default();
    if let Some(names) = names
        && let Some((name, _)) =
            form_urlencoded::parse(query.as_bytes()).find(|(name, _)| !names.contains(name.as_ref()))
    {
        let mut takes: Vec<&str> = names.iter().map(String::as_str).collect();
        takes.sort_unstable();
        let takes = if takes.is_empty() { "none".to_owned() } else { takes.join(", ") };
        let detail = format!("This address knows no such parameter; it takes: {takes}. Nothing was done.");
        return Refusal::field(&name, detail).into_response();
    }
    next.run(request).await
}
