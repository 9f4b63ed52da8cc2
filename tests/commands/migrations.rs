//! The schema is brought up to date at start: once, and never backwards.

use crate::program::{Data, Running, run};

#[tokio::test]
async fn two_that_start_at_once_migrate_once() {
    let data = Data::ready().await;
    let (one, two) = tokio::join!(run(data.command(&["migrate"])), run(data.command(&["migrate"])));
    one.succeeded();
    two.succeeded();
    let counts = "SELECT count(*) = count(DISTINCT version) AND count(*) > 0 AND bool_and(success) FROM _sqlx_migrations";
    assert_eq!(data.sql(counts).await, "t");
    assert!(data.is_quiet(), "the last to leave stops Postgres");
}

#[tokio::test]
async fn a_schema_that_is_newer_than_the_program_is_refused() {
    let data = Data::ready().await;
    run(data.command(&["migrate"])).await.succeeded();
    data.sql(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (999999, 'from the future', true, '\\x00', 0)",
    )
    .await;
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["migrate"]] {
        run(data.command(command)).await.failed(1, &["a newer Fairlist", "999999", "backup"]);
        assert!(data.is_quiet());
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_refused() {
    let data = Data::ready().await;
    run(data.command(&["migrate"])).await.succeeded();
    data.sql("UPDATE _sqlx_migrations SET checksum = '\\x00'").await;
    run(data.command(&["migrate"])).await.failed(1, &["is not the one in this program"]);
}

#[tokio::test]
async fn any_postgres_that_is_named_is_used_instead() {
    // A private server's socket is an address like any other.
    let lent = Data::ready().await;
    let server = Running::serve(&lent).await;
    lent.sql("CREATE DATABASE named").await;
    let socket = lent.socket_directory().display().to_string().replace('/', "%2F");
    let url = format!("postgres://fairlist@{socket}:5432/named");

    let own = Data::missing();
    run(own.command(&["migrate", "--database-url", &url])).await.succeeded();
    let tables = "SELECT count(*) > 0 FROM pg_tables WHERE tablename = 'entries'";
    let asked = run(own.command(&["psql", "--database-url", &url, "--", "-Atc", tables])).await;
    assert_eq!(asked.succeeded(), "t\n");
    assert!(!own.path().exists(), "no private server, no data directory");
    server.stop().await;
}
