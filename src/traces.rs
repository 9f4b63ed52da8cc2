//! Traces for OpenTelemetry: what a request, a pass, a letter or a call to another system took, and what it was part of.
//! Sent by OTLP over HTTP where the configuration says so, and made nowhere else.
//!
//! A span holds what a line of the log holds: names of routes and ids, never a token, a code or an address of a person.
//! How many are kept and what the service is called is read from OpenTelemetry's own variables (`OTEL_TRACES_SAMPLER`,
//! `OTEL_SERVICE_NAME`, `OTEL_EXPORTER_OTLP_HEADERS`, …).

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use url::Url;

use crate::tls::Trust;

/// How long a collector may take to accept a batch; whoever is slower loses it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where traces go, until it is dropped: what was not sent yet is sent then.
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// To the collector at this address, to whose path `v1/traces` is added. To be made where no runtime runs: a thread
    /// of its own sends.
    ///
    /// # Errors
    /// In words, when the exporter cannot be made.
    pub fn to(collector: &Url, trust: &Trust) -> Result<Self, String> {
        let client = reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(trust.client().map_err(|error| error.to_string())?)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        let address = format!("{}/v1/traces", collector.as_str().trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(address)
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        let mut about = Resource::builder()
            .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            about = about.with_service_name("fairlist");
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(about.build()).build();
        Ok(Self(provider))
    }

    /// What makes spans.
    #[must_use]
    pub fn tracer(&self) -> SdkTracer {
        self.0.tracer("fairlist")
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // The collector is not there: its loss.
        drop(self.0.shutdown_with_timeout(PATIENCE));
    }
}
