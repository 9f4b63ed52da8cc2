//! What the API says of itself: `/v1/openapi.json`, and the page `/v1/docs` that is made of it.

use askama::Template;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
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
    components(schemas(Problem, super::lines::Hindered, super::views::WantView, crate::domain::audit::Act)),
    servers((url = "/", description = "This server.")),
    security(("key" = []), ("customer" = []))
)]
pub(super) struct Described;

/// Adds what is the same for every operation: how callers say who they are, what a refusal looks like, and the key by
/// which an act is done once.
#[must_use]
pub(super) fn complete(mut described: OpenApi) -> OpenApi {
    let bearer = |what| {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(what)).build();
        SecurityScheme::Http(scheme)
    };
    let signature = ApiKeyValue::with_description(
        "webhook-signature",
        "By Standard Webhooks, with webhook-id and webhook-timestamp: v1, and the HMAC-SHA256 of id.timestamp.body.",
    );
    let schemes = &mut described.components.get_or_insert_default().security_schemes;
    schemes.insert(
        "key".to_owned(),
        bearer("A key of an organization, fl_key_…, with the scopes named.").into(),
    );
    schemes.insert(
        "customer".to_owned(),
        bearer("A customer’s token, fl_me_…: they act for themselves.").into(),
    );
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

/// How the names of pages of many begin: what is said of those is said once.
const LISTED: &str = "Listed_";

/// Words, and of each whether it is the name of a thing, to which it leads.
type Words = Vec<(String, bool)>;

/// What a request is made of: a parameter, or a field of a body or an answer.
struct Field {
    name: String,
    kind: Words,
    text: String,
    /// Without it the request is refused.
    needed: bool,
    /// What one looks like, as JSON; empty where that goes without saying.
    example: String,
}

/// One operation, as the page shows it.
struct Operation {
    method: &'static str,
    path: String,
    title: String,
    text: String,
    who: String,
    parameters: Vec<Field>,
    body: Option<Words>,
    answers: Vec<(String, String, Option<Words>)>,
}

/// A thing that is sent or answered.
struct Thing {
    name: String,
    text: String,
    kind: Words,
    fields: Vec<Field>,
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
    writes: i32,
    families: Arc<Vec<Family>>,
    things: Arc<Vec<Thing>>,
    scopes: &'static [Scope],
    codes: &'static [Code],
    kinds: &'static [Kind],
}

/// The two addresses.
pub(super) fn router(described: &OpenApi) -> Router<WebState> {
    let mut value = serde_json::to_value(described).unwrap_or_default();
    let plain = with_plain_ids(value.clone());
    let (families, things) = (Arc::new(families(&plain)), Arc::new(things(&plain)));
    say_who(&mut value);
    let bytes = Bytes::from(value.to_string());
    let page = async move |State(state): State<WebState>| -> Result<Response, Error> {
        let mut layout = Layout::bare("The API", false, state.db.clock().local());
        layout.menu = true;
        let (families, things) = (families.clone(), things.clone());
        let base = state.settings.origin();
        let page = DocsPage {
            layout,
            base,
            writes: state.settings.limits.writes,
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

/// Without the marks of code: the page shows sentences. What may be null too says it in one of its parts.
fn text(value: &Value, field: &str) -> String {
    let mut parts = value["oneOf"].as_array().into_iter().flatten();
    let said = value[field].as_str().or_else(|| parts.find_map(|part| part[field].as_str()));
    said.unwrap_or_default().replace('`', "")
}

/// The description as the page shows it: an id of whatever is an id.
fn with_plain_ids(mut api: Value) -> Value {
    fn put(value: &mut Value, ids: &HashMap<String, Value>) {
        let known = value["$ref"].as_str().and_then(|name| ids.get(name)).cloned();
        match (known, value) {
            (Some(Value::Object(id)), Value::Object(fields)) => {
                fields.remove("$ref");
                let text = fields.get("description").cloned();
                fields.extend(id);
                fields.extend(text.map(|text| ("description".to_owned(), text)));
            }
            (_, Value::Object(fields)) => fields.values_mut().for_each(|value| put(value, ids)),
            (_, Value::Array(values)) => values.iter_mut().for_each(|value| put(value, ids)),
            _ => {}
        }
    }
    let mut ids = HashMap::new();
    if let Some(schemas) = api["components"]["schemas"].as_object_mut() {
        schemas.retain(|name, schema| {
            let is_id = schema["format"] == "uuid";
            if is_id {
                ids.insert(format!("#/components/schemas/{name}"), schema.clone());
            }
            !is_id
        });
    }
    put(&mut api, &ids);
    api
}

/// What a schema is, in a few words: text, an instant, a list of `PlaceView`, a number or null.
fn kind(schema: &Value) -> Words {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return match name.strip_prefix(LISTED) {
            Some(of) => [word("page of "), vec![(of.to_owned(), true)]].concat(),
            None => vec![(name.to_owned(), true)],
        };
    }
    if let Some(words) = schema["enum"].as_array() {
        return word(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "));
    }
    for (several, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " with ")] {
        if let Some(parts) = schema[several].as_array() {
            return joined(parts.iter().map(kind), between);
        }
    }
    let plain = |name: &str| match (name, schema["format"].as_str()) {
        ("array", _) => [word("list of "), kind(&schema["items"])].concat(),
        ("string", Some("date-time")) => word("instant"),
        ("string", Some("date")) => word("day"),
        ("string", Some("uuid")) => word("id"),
        ("string", _) => word("text"),
        ("integer", _) => word("whole number"),
        ("boolean", _) => word("true or false"),
        ("object", _) if schema["additionalProperties"].is_object() => {
            [word("by key, each "), kind(&schema["additionalProperties"])].concat()
        }
        (name, _) => word(name),
    };
    match &schema["type"] {
        Value::String(name) => plain(name),
        Value::Array(names) => joined(names.iter().filter_map(Value::as_str).map(plain), " or "),
        _ => word("anything"),
    }
}

fn word(text: impl Into<String>) -> Words {
    vec![(text.into(), false)]
}

fn joined(parts: impl Iterator<Item = Words>, between: &str) -> Words {
    let mut all = Words::new();
    for part in parts {
        if !all.is_empty() {
            all.push((between.to_owned(), false));
        }
        all.extend(part);
    }
    all
}

/// JSON as people write it on one line.
fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("\"{name}\": {}", on_one_line(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(on_one_line).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn field(name: &str, schema: &Value, text: String, needed: bool) -> Field {
    let example = match (&schema["example"], &schema["examples"][0]) {
        (Value::Null, Value::Null) => String::new(),
        (Value::Null, example) | (example, _) => on_one_line(example),
    };
    let kind = [kind(schema), word(bounds(schema))].concat();
    Field { name: name.to_owned(), kind, text, needed, example }
}

/// Between which numbers a value lies, or how long it may be; nothing where that is not said.
fn bounds(schema: &Value) -> String {
    // Counts are never below 0: that goes without saying.
    let least = Some(&schema["minimum"]).filter(|least| least.as_f64() != Some(0.0)).unwrap_or(&Value::Null);
    match (least, &schema["maximum"], &schema["maxLength"]) {
        (Value::Null, Value::Null, Value::Null) => String::new(),
        (Value::Null, Value::Null, most) => format!(", at most {most} characters"),
        (least, Value::Null, _) => format!(", at least {least}"),
        (Value::Null, most, _) => format!(", at most {most}"),
        (least, most, _) => format!(", {least} to {most}"),
    }
}

/// Who may: keys that are good for it, customers for themselves, or anybody.
fn who(operation: &Value) -> String {
    let ways = operation["security"].as_array().cloned().unwrap_or_default();
    if ways.iter().any(|way| *way == serde_json::json!({})) {
        return "Anybody.".to_owned();
    }
    let customers = ways.iter().any(|way| way["customer"].is_array());
    let scopes = ways.iter().find_map(|way| way["key"].as_array());
    let scopes = scopes.map(|scopes| scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
    match (scopes, customers) {
        (Some(scopes), true) => format!("Customers for themselves, and keys with the scope {scopes}."),
        (Some(scopes), false) => format!("Keys with the scope {scopes}."),
        (None, true) => "Customers.".to_owned(),
        (None, false) => "Whoever shows a key or a token.".to_owned(),
    }
}

/// The same for readers of the description, whose tools seldom show what a bearer must be good for.
fn say_who(api: &mut Value) {
    let items = api["paths"].as_object_mut().into_iter().flatten();
    for operation in
        items.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten().map(|(_, one)| one))
    {
        let said =
            format!("{} Who may: {}", operation["description"].as_str().unwrap_or_default(), who(operation));
        operation["description"] = Value::from(said.trim());
    }
}

fn families(api: &Value) -> Vec<Family> {
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

fn shown(method: &'static str, path: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    // What is no JSON is named by its type.
    let json = |value: &Value| {
        let schema = &value["content"]["application/json"]["schema"];
        let other = || Some(vec![(value["content"].as_object()?.keys().next()?.clone(), false)]);
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
        who: who(operation),
        parameters: parameters
            .map(|parameter| {
                let needed = parameter["required"].as_bool().unwrap_or_default();
                let name = parameter["name"].as_str().unwrap_or_default();
                field(name, &parameter["schema"], text(parameter, "description"), needed)
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

/// The names of the things that are sent, and of what is in them: what is needed in a thing that is only answered is
/// always there.
fn sent(api: &Value) -> HashSet<String> {
    fn named(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let name =
                    fields.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
                found.extend(name.map(str::to_owned));
                fields.values().for_each(|value| named(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| named(value, found)),
            _ => {}
        }
    }
    let mut open = Vec::new();
    let items = api["paths"].as_object().into_iter().flatten();
    for operation in items.flat_map(|(_, item)| item.as_object().into_iter().flatten()) {
        named(&operation.1["requestBody"], &mut open);
    }
    let mut all = HashSet::new();
    while let Some(name) = open.pop() {
        if all.insert(name.clone()) {
            named(&api["components"]["schemas"][&name], &mut open);
        }
    }
    all
}

fn things(api: &Value) -> Vec<Thing> {
    let sent = sent(api);
    let schemas = api["components"]["schemas"].as_object().into_iter().flatten();
    schemas
        .filter(|(name, _)| !name.starts_with(LISTED))
        .map(|(name, schema)| {
            let mut fields = Vec::new();
            let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
            for part in &parts {
                for (known, about) in part["properties"].as_object().into_iter().flatten() {
                    let mut required = part["required"].as_array().into_iter().flatten();
                    let needed = sent.contains(name) && required.any(|one| one == known);
                    fields.push(field(known, about, text(about, "description"), needed));
                }
            }
            // What each of several words means.
            let words = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            fields.extend(words.filter_map(|word| {
                let text = schema["x-enumDescriptions"][word].as_str()?.replace('`', "");
                let (name, kind, example) = (word.to_owned(), Words::new(), String::new());
                Some(Field { name, kind, text, needed: false, example })
            }));
            let base = parts.iter().find_map(|part| part["$ref"].as_str()?.rsplit('/').next());
            let kind = match base {
                _ if fields.is_empty() => kind(schema),
                Some(base) => [word("With everything of "), vec![(base.to_owned(), true)]].concat(),
                None => Words::new(),
            };
            Thing { name: name.clone(), text: text(schema, "description"), kind, fields }
        })
        .collect()
}
