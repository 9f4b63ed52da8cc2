//! A wrong setting is refused at start, by its name, and never repeated where it may hold a password.

use crate::program::{Data, fairlist, run};

#[tokio::test]
async fn a_wrong_flag_is_refused_by_name() {
    let wrong = [
        ("serve", "--listen", "8080"),
        ("serve", "--listen", "localhost"),
        ("serve", "--base-url", "tickets.example.org"),
        ("serve", "--base-url", "https://example.org/tickets"),
        ("serve", "--trusted-proxies", "-1"),
        ("serve", "--trusted-proxies", "many"),
        ("serve", "--staff-idle-minutes", "0"),
        ("serve", "--joins-per-hour", "0"),
        ("serve", "--mail-from", "nobody"),
        ("serve", "--log", "xml"),
        ("serve", "--log-level", "loud"),
        ("serve", "--data", ""),
        ("serve", "--postgres-bin", ""),
        ("serve", "--extra-ca-certs", ""),
        ("migrate", "--log", "xml"),
    ];
    for (command, flag, value) in wrong {
        let said = run(fairlist(&[command, &format!("{flag}={value}")])).await;
        said.failed(2, &[flag, value]);
    }
}

#[tokio::test]
async fn a_wrong_variable_is_refused_by_its_own_name() {
    let wrong = [
        ("FAIRLIST_LISTEN", "--listen", "8080"),
        ("FAIRLIST_BASE_URL", "--base-url", "ftp://example.org"),
        ("FAIRLIST_TRUSTED_PROXIES", "--trusted-proxies", "x"),
        ("FAIRLIST_STAFF_IDLE_MINUTES", "--staff-idle-minutes", "100000"),
        ("FAIRLIST_JOINS_PER_HOUR", "--joins-per-hour", "x"),
        ("FAIRLIST_MAIL_FROM", "--mail-from", "x"),
        ("FAIRLIST_LOG", "--log", "xml"),
        ("FAIRLIST_LOG_LEVEL", "--log-level", "loud"),
    ];
    for (variable, flag, value) in wrong {
        let mut command = fairlist(&["serve"]);
        command.env(variable, value);
        run(command).await.failed(2, &[variable, flag, value]);
    }
}

#[tokio::test]
async fn what_may_hold_a_password_is_not_repeated() {
    let data = Data::missing();
    let wrong = [
        ("DATABASE_URL", "--database-url", "mysql://me:hunter2@db.example/x"),
        ("DATABASE_URL", "--database-url", "me:hunter2"),
        ("DATABASE_URL", "--database-url", "postgres://me:hunter2@db.example"),
        ("FAIRLIST_SMTP_URL", "--smtp-url", "http://me:hunter2@mail.example"),
        ("FAIRLIST_SMTP_URL", "--smtp-url", "hunter2"),
        ("FAIRLIST_SECRET", "--secret", "hunter2"),
    ];
    for (variable, flag, value) in wrong {
        let mut command = data.command(&["serve", "--mail-from", "tickets@example.org"]);
        command.env(variable, value);
        let said = run(command).await;
        said.failed(1, &[variable, flag]);
        assert!(!format!("{said:?}").contains("hunter2"), "{said:#?}");
    }
    assert!(!data.path().exists(), "nothing was made");
}

#[tokio::test]
async fn mail_needs_a_sender() {
    let said = run(fairlist(&["serve", "--smtp-url", "smtps://mail.example"])).await;
    said.failed(2, &["--mail-from"]);
}

#[tokio::test]
async fn a_file_is_no_data_directory() {
    let data = Data::missing();
    std::fs::write(data.path(), "").unwrap();
    run(data.command(&["migrate"])).await.failed(1, &["--data", "is not a directory"]);
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_by_name() {
    let data = Data::ready().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = run(data.command(&["serve", "--listen", &address])).await;
    said.failed(1, &["--listen", &address]);
    assert!(data.is_quiet(), "Postgres is stopped on this way out too");
}

#[tokio::test]
async fn the_help_shows_every_setting_with_its_variable() {
    let help = run(fairlist(&["serve", "--help"])).await.succeeded();
    for setting in [
        "--listen",
        "FAIRLIST_LISTEN",
        "--data",
        "FAIRLIST_DATA",
        "--database-url",
        "DATABASE_URL",
        "--base-url",
        "FAIRLIST_BASE_URL",
        "--smtp-url",
        "FAIRLIST_SMTP_URL",
        "--mail-from",
        "FAIRLIST_MAIL_FROM",
        "--secret",
        "FAIRLIST_SECRET",
        "--trusted-proxies",
        "FAIRLIST_TRUSTED_PROXIES",
        "--staff-idle-minutes",
        "FAIRLIST_STAFF_IDLE_MINUTES",
        "--joins-per-hour",
        "FAIRLIST_JOINS_PER_HOUR",
        "--postgres-bin",
        "FAIRLIST_POSTGRES_BIN",
        "--log",
        "FAIRLIST_LOG",
    ] {
        assert!(help.contains(setting), "{setting} is missing in {help}");
    }
}

#[tokio::test]
async fn the_readme_lists_every_setting() {
    let readme = include_str!("../../README.md");
    for command in ["serve", "demo"] {
        let help = run(fairlist(&[command, "--help"])).await.succeeded();
        let variables = help.lines().filter_map(|line| line.trim().strip_prefix("[env: "));
        for variable in variables.filter_map(|rest| rest.split([']', '=']).next()) {
            assert!(
                readme.contains(&format!("`{variable}`")),
                "{variable} of `{command}` is not in the README"
            );
        }
    }
}
