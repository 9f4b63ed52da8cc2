//! What others make of the description: a fuzzer that reads it, and a client that a public generator makes of it.

use std::path::PathBuf;
use std::process::Stdio;

use fairlist::web::Timeouts;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::Shop;
use crate::harness::report::report;
use crate::harness::world::two_hours;

/// The folder of the Python that tests use, with what tests/requirements.txt names.
fn python() -> PathBuf {
    PathBuf::from(std::env::var("FAIRLIST_TEST_PYTHON").expect(
        "this test needs Python with tests/requirements.txt: run it by `tests/run [NAME]`, which installs them, \
         or set FAIRLIST_TEST_PYTHON",
    ))
}

/// Serves the shop's router until the guard is dropped.
async fn served(shop: &Shop) -> (String, tokio_util::sync::DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let until = CancellationToken::new();
    tokio::spawn(fairlist::web::serve(listener, shop.router.clone(), Timeouts::default(), until.clone()));
    (address, until.drop_guard())
}

async fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().await.expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fuzzer_finds_no_answer_that_the_description_does_not_have() {
    let shop = Shop::with(two_hours(), 2).await;
    shop.world.all_waiting(&["ada", "bob", "cora"]).await;
    let (address, _guard) = served(&shop).await;
    fuzzed(&address, &shop.token, "", 40).await;
}

/// With ids of what is there, and in the name of the person whose it is: the guesses of the fuzzer get behind the doors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_it_where_it_knows_ids_and_acts_for_a_customer() {
    let shop = Shop::with(two_hours(), 2).await;
    let ada = shop.customer("Ada", "ada@example.com").await;
    let entry = shop.world.waiting("Ada", 1).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(entry.id).await;
    let place = shop.first_place().await;
    let known = format!(
        "[parameters]\n\"path.event\" = \"spring\"\n\"path.entry\" = \"{}\"\n\"path.offer\" = \"{}\"\n\"path.place\" = \"{}\"\n",
        entry.id,
        offer.id,
        super::id(&place)
    );
    let (address, _guard) = served(&shop).await;
    fuzzed(&address, ada.token().expect("a customer's token"), &known, 20).await;
    fuzzed(&address, &shop.token, &known, 20).await;
}

/// Has everything of the description tried by whoever shows `token`, for so many seconds.
async fn fuzzed(address: &str, token: &str, config: &str, seconds: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("schemathesis.toml");
    std::fs::write(&file, config).expect("written");
    let (good, said) = run(Command::new(python().with_file_name("schemathesis"))
        .arg("--config-file")
        .arg(&file)
        .args(["run", &format!("{address}/v1/openapi.json")])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args([
            "--checks",
            "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance",
        ])
        .args(["--max-examples", "6", "--seed", "20270301", "--no-color"])
        .args(["--max-time", &seconds.to_string()]))
    .await;
    assert!(good, "{said}");
    let figures = said.lines().find(|line| line.contains(" generated, ")).unwrap_or_default();
    report(figures.trim());
    assert!(figures.contains("passed") && !figures.contains("failed"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_client_joins_is_offered_and_accepts() {
    let shop = Shop::with(two_hours(), 0).await;
    let (address, _guard) = served(&shop).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (good, said) = run(Command::new(python().with_file_name("openapi-python-client"))
        .args(["generate", "--meta", "none", "--url", &format!("{address}/v1/openapi.json")])
        .arg("--output-path")
        .arg(folder.path().join("fairlist_client")))
    .await;
    assert!(good && !said.contains("will not be generated"), "{said}");
    let client = |part: &str| {
        let mut command = Command::new(python());
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/generated_client.py"))
            .arg(part)
            .env("PYTHONPATH", folder.path())
            .env("FAIRLIST", &address)
            .env("KEY", &shop.token);
        command
    };
    let (good, said) = run(&mut client("join")).await;
    assert!(good, "{said}");
    shop.world.pass().await;
    let (good, said) = run(&mut client("accept")).await;
    assert!(good && said.contains("accepted"), "{said}");
}
