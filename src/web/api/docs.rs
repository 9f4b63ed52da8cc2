//! What the API says of itself: `/v1/openapi.json`, and the page `/v1/docs` that is made of it.

use askama::Template;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder};

use super::problem::{Code, Problem};
use crate::domain::key::Scope;
use crate::domain::transition::Kind;
use crate::web::WebState;
use crate::web::error::Error;
use crate::web::page::{Layout, Page};

/// What is said of the whole; the operations add themselves.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Fairlist",
        version = "1",
        description = "A waitlist that makes the next offer clear, proves that it was fair, and never promises one place twice.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem, super::lines::Hindered, crate::domain::audit::Act)),
    security(("bearer" = []))
)]
pub(super) struct Described;

/// Adds what is the same for every operation: how callers say who they are, what a refusal looks like, and the key by
/// which an act is done once.
#[must_use]
pub(super) fn complete(mut described: OpenApi) -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A key of an organization (fl_key_…), or a customer’s token (fl_me_…)."))
        .build();
    let signature = ApiKeyValue::with_description(
        "webhook-signature",
        "By Standard Webhooks, with webhook-id and webhook-timestamp: v1, and the HMAC-SHA256 of id.timestamp.body.",
    );
    let schemes = &mut described.components.get_or_insert_default().security_schemes;
    schemes.insert("bearer".to_owned(), SecurityScheme::Http(bearer).into());
    schemes.insert("signature".to_owned(), SecurityScheme::ApiKey(ApiKey::Header(signature)).into());
    let refusal = ResponseBuilder::new()
        .description("Refused, or gone wrong: the code says why.")
        .content(
            "application/problem+json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build(),
        )
        .build();
    for (path, item) in &mut described.paths.paths {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), RefOr::T(refusal.clone()));
        }
        if let Some(post) = &mut item.post
            && !post
                .security
                .as_ref()
                .is_some_and(|security| security.contains(&SecurityRequirement::default()))
        {
            let needed = path.ends_with(":accept");
            post.parameters.get_or_insert_default().push(idempotency_key(needed).into());
        }
    }
    described
}

fn idempotency_key(needed: bool) -> utoipa::openapi::path::Parameter {
    use utoipa::openapi::path::{ParameterBuilder, ParameterIn};
    use utoipa::openapi::schema::{ObjectBuilder, Type};
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(if needed { Required::True } else { Required::False })
        .description(Some(
            "A key of your own, such as a UUID: the act is done once, and a repetition answered the same for 24 hours. An answer that shows a secret is not kept: it is made again, the same.",
        ))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(255))))
        .build()
}

/// One operation, as the page shows it.
struct Operation {
    method: &'static str,
    path: String,
    title: String,
    text: String,
    public: bool,
    parameters: Vec<(String, String, String, bool)>,
    body: Option<String>,
    answers: Vec<(String, String, Option<String>)>,
}

/// A thing that is sent or answered.
struct Thing {
    name: String,
    text: String,
    fields: Vec<(String, String, String)>,
}

/// Operations that belong together.
struct Family {
    name: String,
    operations: Vec<Operation>,
}

#[derive(Template)]
#[template(path = "api/docs.html")]
struct DocsPage {
    layout: Layout,
    base: String,
    families: Arc<Vec<Family>>,
    things: Arc<Vec<Thing>>,
    scopes: &'static [Scope],
    codes: &'static [Code],
    kinds: &'static [Kind],
}

/// The two addresses.
pub(super) fn router(described: &OpenApi) -> Router<WebState> {
    let value = serde_json::to_value(described).unwrap_or_default();
    let bytes = Bytes::from(value.to_string());
    let (families, things) = (Arc::new(families(&value)), Arc::new(things(&value)));
    let page = async move |State(state): State<WebState>| -> Result<Response, Error> {
        let mut layout = Layout::bare("The API", false, state.db.clock().local());
        layout.menu = true;
        let (families, things) = (families.clone(), things.clone());
        let base = state.settings.origin();
        let page = DocsPage {
            layout,
            base,
            families,
            things,
            scopes: Scope::ALL,
            codes: Code::ALL,
            kinds: Kind::ALL,
        };
        Ok(Page(page).into_response())
    };
    Router::new()
        .route("/v1/openapi.json", get(async move || ([(CONTENT_TYPE, "application/json")], bytes.clone())))
        .route("/v1/docs", get(page))
        .route("/v1/booking-service.yaml", get(async || ([(CONTENT_TYPE, "application/yaml")], CONTRACT)))
}

/// What a service must be able to do that keeps an event's places: the tests hold ours to it.
const CONTRACT: &str = include_str!("../../../tests/booking-service.yaml");

/// Without the marks of code: the page shows sentences.
fn text(value: &serde_json::Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().replace('`', "")
}

/// What a schema is, in a few words: `string`, `EntryView`, `list of PlaceView`, `integer or null`.
fn kind(schema: &serde_json::Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(|word| word.as_str()).collect::<Vec<_>>().join(" | ");
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(parts) = schema[several].as_array() {
            let joined = if several == "allOf" { " with " } else { " or " };
            return parts.iter().map(kind).collect::<Vec<_>>().join(joined);
        }
    }
    let plain = |name: &str| match (name, schema["format"].as_str()) {
        ("array", _) => format!("list of {}", kind(&schema["items"])),
        ("string", Some("date-time")) => "instant".to_owned(),
        ("string", Some("date")) => "day".to_owned(),
        ("string", Some("uuid")) => "id".to_owned(),
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        (name, _) => name.to_owned(),
    };
    match &schema["type"] {
        serde_json::Value::String(name) => plain(name),
        serde_json::Value::Array(names) => {
            names.iter().filter_map(|name| name.as_str()).map(plain).collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn families(api: &serde_json::Value) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for (path, item) in api["paths"].as_object().into_iter().flatten() {
        for method in ["get", "post", "put", "patch", "delete"] {
            let operation = &item[method];
            if !operation.is_object() {
                continue;
            }
            let name = operation["tags"][0].as_str().unwrap_or("Other");
            let shown = shown(method, path, operation);
            match families.iter_mut().find(|family| family.name == name) {
                Some(family) => family.operations.push(shown),
                None => families.push(Family { name: name.to_owned(), operations: vec![shown] }),
            }
        }
    }
    families
}

fn shown(method: &'static str, path: &str, operation: &serde_json::Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    // What is no JSON is named by its type.
    let json = |value: &serde_json::Value| {
        let schema = &value["content"]["application/json"]["schema"];
        let other = || value["content"].as_object()?.keys().next().cloned();
        if schema.is_object() { Some(kind(schema)) } else { other() }
    };
    Operation {
        method: match method {
            "get" => "GET",
            "post" => "POST",
            "put" => "PUT",
            "patch" => "PATCH",
            _ => "DELETE",
        },
        path: path.to_owned(),
        title: text(operation, "summary"),
        text: text(operation, "description"),
        public: operation["security"]
            .as_array()
            .is_some_and(|any| any.iter().any(|one| *one == serde_json::json!({}))),
        parameters: parameters
            .map(|parameter| {
                (
                    text(parameter, "name"),
                    kind(&parameter["schema"]),
                    text(parameter, "description"),
                    parameter["required"].as_bool().unwrap_or_default(),
                )
            })
            .collect(),
        body: json(&operation["requestBody"]),
        answers: operation["responses"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(status, _)| *status != "default")
            .map(|(status, answer)| (status.clone(), text(answer, "description"), json(answer)))
            .collect(),
    }
}

fn things(api: &serde_json::Value) -> Vec<Thing> {
    let schemas = api["components"]["schemas"].as_object().into_iter().flatten();
    schemas
        .map(|(name, schema)| {
            let mut fields = Vec::new();
            let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
            for part in &parts {
                for (field, about) in part["properties"].as_object().into_iter().flatten() {
                    fields.push((field.clone(), kind(about), text(about, "description")));
                }
            }
            let about = text(schema, "description");
            let base = parts.iter().find_map(|part| part["$ref"].as_str()?.rsplit('/').next());
            let words = match base {
                _ if fields.is_empty() => format!("{about} {}", kind(schema)),
                Some(base) => format!("{about} With everything of {base}."),
                None => about,
            };
            Thing { name: name.clone(), text: words.trim().to_owned(), fields }
        })
        .collect()
}
