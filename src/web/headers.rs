//! What every response says about itself, errors too.

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::Response;

use super::WebState;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                   connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const PERMISSIONS: &str = "accelerometer=(), ambient-light-sensor=(), autoplay=(), bluetooth=(), camera=(), \
                           display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), \
                           idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), payment=(), \
                           picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), \
                           web-share=(), xr-spatial-tracking=()";

/// The layer. `Cache-Control: no-store` unless the handler said otherwise: nearly every page is personal, and a
/// kept one would show a place that is gone.
pub async fn set(State(state): State<WebState>, request: Request, next: Next) -> Response {
    let id = request.headers().get(super::REQUEST_ID).cloned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(HeaderName::from_static("permissions-policy"), HeaderValue::from_static(PERMISSIONS));
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if state.settings.https() {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=63072000"));
    }
    if let Some(id) = id {
        headers.insert(super::REQUEST_ID, id);
    }
    response
}

/// For the one response whose address holds a token: nobody learns where the visitor came from.
pub const NO_REFERRER: (HeaderName, &str) = (REFERRER_POLICY, "no-referrer");
