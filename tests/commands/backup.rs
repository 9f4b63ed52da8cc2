//! Going back to the moment before a mistake, as `operations/README.md` describes it: an archive of the log, a base backup,
//! and a Postgres that stops reading at an instant. What stands then is sound.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairlist::db::postgres;
use nix::unistd::{User, geteuid};

use crate::harness::database::TestDatabase;
use crate::harness::sample::{self, NOW};

/// A Postgres of an operator's own, below one directory; ends with the test.
struct Operator {
    directory: tempfile::TempDir,
    user: Option<User>,
}

impl Operator {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        // Postgres refuses to run as root.
        let unprivileged =
            || ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
        let user = geteuid().is_root().then(|| unprivileged().expect("somebody without rights"));
        let operator = Self { directory, user };
        operator.owned(operator.directory.path());
        fs::DirBuilder::new().mode(0o700).create(operator.path("wal")).expect("made");
        operator.owned(&operator.path("wal"));
        operator
    }

    fn owned(&self, path: &Path) {
        if let Some(user) = &self.user {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("given away");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let settings = postgres::Settings { data: PathBuf::new(), binaries: None };
        let mut command = Command::new(postgres::client(&settings, program).expect(program));
        command
            .args(arguments)
            .current_dir("/")
            .env("PGHOST", self.directory.path())
            .env("PGUSER", "operator");
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        let output = command.output().expect(program);
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    fn sql(&self, statement: &str) -> String {
        self.run("psql", &["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", "fairlist", "-c", statement])
    }

    fn configure(&self, data: &str, lines: &str) {
        let file = self.path(data).join("postgresql.auto.conf");
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, before + lines).expect("configured");
    }

    fn start(&self, data: &str) {
        let (data, log) = (self.path(data), self.path("log"));
        let options = format!("-k {} -c listen_addresses=", self.directory.path().display());
        let (data, log) = (data.to_str().expect("a path"), log.to_str().expect("a path"));
        self.run("pg_ctl", &["-D", data, "-l", log, "-w", "-o", &options, "start"]);
    }

    fn stop(&self, data: &str) {
        self.run("pg_ctl", &["-D", self.path(data).to_str().expect("a path"), "-w", "-m", "fast", "stop"]);
    }

    fn url(&self) -> String {
        format!("postgres://operator@localhost/fairlist?host={}", self.directory.path().display())
    }

    fn check(&self) -> (String, bool) {
        // The secret from which the sample's tokens are derived.
        let output = Command::new(env!("CARGO_BIN_EXE_fairlist"))
            .args(["check", "--database-url", &self.url()])
            .env("FAIRLIST_SECRET", "\u{7}".repeat(32))
            .output()
            .expect("the program starts");
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        (said, output.status.success())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        for data in ["data", "back"] {
            let Ok(pid) = fs::read_to_string(self.path(data).join("postmaster.pid")) else { continue };
            if let Some(pid) = pid.lines().next().and_then(|pid| pid.parse().ok()) {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGQUIT,
                );
            }
        }
    }
}

#[tokio::test]
async fn a_mistake_is_undone_by_going_back_to_the_moment_before_it() {
    let sample = TestDatabase::at(NOW).await;
    sample::write(&sample).await;
    let operator = Operator::new();
    let archive = operator.path("wal").display().to_string();
    let data = operator.path("data").display().to_string();
    operator.run("initdb", &["-D", &data, "-U", "operator", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]);
    operator.configure(
        "data",
        &format!(
            "wal_level = replica\narchive_mode = on\narchive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'\n"
        ),
    );
    operator.start("data");
    operator.run("createdb", &["fairlist"]);
    let dump = operator.path("sample.sql").display().to_string();
    operator.run("pg_dump", &["--no-owner", "--file", &dump, &sample.url()]);
    operator.run("psql", &["-Xq", "-v", "ON_ERROR_STOP=1", "-d", "fairlist", "-f", &dump]);
    let (said, sound) = operator.check();
    assert!(sound, "{said}");

    operator.run(
        "pg_basebackup",
        &["-D", operator.path("base").to_str().expect("a path"), "-X", "stream", "-c", "fast"],
    );
    operator.sql("UPDATE organizations SET name = 'Written after the backup'");
    let before_the_mistake = operator.sql("SELECT clock_timestamp()");
    operator.sql("TRUNCATE bookings, messages CASCADE");
    operator.sql("SELECT pg_switch_wal()");
    operator.stop("data");

    operator.run(
        "cp",
        &[
            "-a",
            operator.path("base").to_str().expect("a path"),
            operator.path("back").to_str().expect("a path"),
        ],
    );
    let signal = operator.path("back").join("recovery.signal");
    fs::write(&signal, "").expect("written");
    operator.owned(&signal);
    operator.configure(
        "back",
        &format!(
            "restore_command = 'cp {archive}/%f %p'\nrecovery_target_time = '{before_the_mistake}'\n\
             recovery_target_action = 'promote'\narchive_mode = off\n"
        ),
    );
    operator.start("back");
    crate::harness::patience::until("it has gone back", std::time::Duration::from_mins(1), async || {
        operator.sql("SELECT pg_is_in_recovery()") == "f"
    })
    .await;
    let (said, sound) = operator.check();
    assert!(sound && said.contains("Everything that must hold does"), "{said}");
    assert_eq!(operator.sql("SELECT DISTINCT name FROM organizations"), "Written after the backup");
    assert_ne!(operator.sql("SELECT count(*) FROM bookings"), "0");
    operator.stop("back");
}
