//! Traces by OTLP: what a collector is told, and what it is not.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

use crate::harness::database::{SECRET, TestDatabase};
use crate::harness::receiver::{Answer, Receiver};
use crate::harness::world::{World, two_hours};
use crate::program::{Running, fairlist, get};

const TRACES: &str = "/v1/traces";

#[tokio::test]
async fn a_collector_is_told_of_requests_and_passes_and_of_nobody() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    world.waiting("Ann", 1).await;
    world.add_places(1).await;
    let collector = Receiver::start().await;
    collector.answers(TRACES, [Answer::Status(200)]);
    let mut command = fairlist(&["serve", "--listen", "127.0.0.1:0"]);
    command
        .env("DATABASE_URL", world.database.url())
        .env("FAIRLIST_SECRET", SECRET)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url(""))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=theatre");
    let mut program = Running::start(command);
    program.says("Fairlist is at").await;
    program.says("offered").await;
    let token = "f".repeat(64);
    let answer = get(&program.url().parse().expect("a URL"), &format!("/o/{token}")).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    // What was not sent yet is sent at the end.
    program.stop().await;

    let received = collector.received(TRACES);
    assert!(received.iter().all(|one| one.header("x-tenant") == "theatre"));
    let told: Vec<_> = received
        .iter()
        .flat_map(|one| ExportTraceServiceRequest::decode(&one.body[..]).expect("traces").resource_spans)
        .collect();
    let about = format!("{:?}", told.first().and_then(|one| one.resource.clone()));
    assert!(about.contains("service.name") && about.contains("fairlist"), "{about}");
    let spans: Vec<_> =
        told.into_iter().flat_map(|one| one.scope_spans).flat_map(|scope| scope.spans).collect();
    let named = |name: &str| {
        let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} is not in {names:?}"))
    };
    let request = named("GET /o/{token}");
    let status = request.attributes.iter().find(|one| one.key == "http.response.status_code");
    assert!(format!("{status:?}").contains("404"), "{status:?}");
    // What a pass took is told with what it was part of.
    let pass = named("pass");
    let lock = spans.iter().find(|span| span.name == "event lock" && span.parent_span_id == pass.span_id);
    assert_eq!(lock.map(|lock| &lock.trace_id), Some(&pass.trace_id));
    let everything = format!("{spans:?}");
    for secret in [token.as_str(), "Ann", "ann@", SECRET] {
        assert!(!everything.contains(secret), "{secret} in {everything}");
    }
}

#[tokio::test]
async fn without_a_collector_nothing_waits() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let mut command =
        fairlist(&["serve", "--listen", "127.0.0.1:0", "--traces", &format!("http://{nobody}")]);
    command.env("DATABASE_URL", world.database.url()).env("FAIRLIST_SECRET", SECRET);
    let mut program = Running::start(command);
    program.says("Fairlist is at").await;
    assert!(program.answers().await);
    program.stop().await;
}
