//! The life of the private Postgres: nobody has to care for it, whatever is killed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, User, getpgid};

use crate::program::{Data, Running, are_we_root, gone, owner, run};

#[tokio::test]
async fn an_empty_directory_is_all_it_takes() {
    let data = Data::missing();
    let server = Running::serve(&data).await;

    assert!(server.answers().await);
    for (setting, value) in
        [("fsync", "on"), ("full_page_writes", "on"), ("data_checksums", "on"), ("listen_addresses", "")]
    {
        assert_eq!(data.sql(&format!("SHOW {setting}")).await, value, "{setting}");
    }
    assert_eq!(data.sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").await, "f");
    assert_eq!(data.sql("SELECT lower('ÉŞ')").await, "éş", "letters of every script have a lower case");
    let postmaster = data.postmaster().expect("Postgres runs");
    assert_eq!(getpgid(Some(postmaster)), Ok(postmaster), "a process group of its own");

    server.stop().await;
    assert!(data.is_quiet());
    assert!(data.log().contains("database system is shut down"), "{}", data.log());
    let secret = data.path().join("secret");
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);

    let before = fs::read_to_string(&secret).unwrap();
    Running::serve(&data).await.stop().await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), before, "the secret is made once");
    assert!(!data.log().contains("interrupted"), "stopped cleanly, it does not recover: {}", data.log());
    // Nothing that would fill the disk of whoever has many visitors.
    assert!(!data.log().contains("WARNING"), "{}", data.log());
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let data = Data::ready().await;
    let first = Running::serve(&data).await;

    let second = run(data.command(&["serve", "--listen", "127.0.0.1:0"])).await;
    second.failed(1, &["another Fairlist server", &format!("(process {})", first.pid()), "--data"]);

    assert!(first.answers().await);
    first.stop().await;
    assert!(data.is_quiet());
}

#[tokio::test]
async fn the_server_of_a_killed_program_is_adopted() {
    let data = Data::ready().await;
    let first = Running::serve(&data).await;
    let postmaster = data.postmaster().expect("Postgres runs");

    first.kill().await;
    assert_eq!(data.postmaster(), Some(postmaster), "an orphan now");

    let second = Running::serve(&data).await;
    assert_eq!(data.postmaster(), Some(postmaster));
    assert!(second.answers().await);
    second.stop().await;
    assert!(data.is_quiet());
}

#[tokio::test]
async fn what_was_committed_survives_the_death_of_everything() {
    let data = Data::ready().await;
    let server = Running::serve(&data).await;
    data.sql("CREATE TABLE kept AS SELECT 42 AS answer").await;
    let postmaster = data.postmaster().expect("Postgres runs");

    server.kill().await;
    kill(postmaster, Signal::SIGKILL).unwrap();
    gone(postmaster).await;
    assert!(data.cluster().join("postmaster.pid").exists(), "left behind");

    let server = Running::serve(&data).await;
    assert_eq!(data.sql("SELECT answer FROM kept").await, "42");
    server.stop().await;
    assert!(data.log().contains("not properly shut down; automatic recovery"), "{}", data.log());
    assert!(data.is_quiet());
}

#[tokio::test]
async fn postgres_is_started_again_when_it_dies_under_a_server() {
    let data = Data::ready().await;
    let mut server = Running::serve(&data).await;
    let first = data.postmaster().expect("Postgres runs");

    kill(first, Signal::SIGKILL).unwrap();
    server.says("ended unexpectedly").await;
    server.says("Postgres runs again").await;

    assert_ne!(data.postmaster(), Some(first));
    assert!(server.answers().await, "by itself, without a restart");
    server.stop().await;
    assert!(data.is_quiet());
}

#[tokio::test]
async fn a_pid_file_that_names_somebody_else_is_survived() {
    let data = Data::ready().await;
    // The number is a living process of the very user the server runs as: Postgres itself would take it for the
    // server.
    let mut command = std::process::Command::new("sleep");
    command.arg("600");
    if are_we_root() {
        command.uid(fs::metadata(data.cluster()).unwrap().uid());
    }
    let mut bystander = command.spawn().unwrap();
    let pid_file = data.cluster().join("postmaster.pid");
    fs::write(&pid_file, format!("{}\n{}\n1\n5432\n/tmp\n\n", bystander.id(), data.cluster().display()))
        .unwrap();

    assert_eq!(data.sql("SELECT 1").await, "1");

    assert!(bystander.try_wait().unwrap().is_none(), "and nobody else is ended");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(data.is_quiet());
}

#[tokio::test]
async fn a_damaged_pid_file_is_survived() {
    for content in ["", "garbage\n"] {
        let data = Data::ready().await;
        fs::write(data.cluster().join("postmaster.pid"), content).unwrap();
        assert_eq!(data.sql("SELECT 1").await, "1", "{content:?}");
        assert!(data.is_quiet());
    }
}

/// Names, lengths and times of all files.
fn listing(directory: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let about = entry.metadata().unwrap();
        found.push((entry.path(), about.len(), about.mtime(), about.mtime_nsec()));
        if about.is_dir() {
            found.extend(listing(&entry.path()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_cluster_of_another_major_version_is_never_touched() {
    let data = Data::ready().await;
    fs::write(data.cluster().join("PG_VERSION"), "14\n").unwrap();
    let before = listing(&data.cluster());
    for command in [&["serve"][..], &["psql", "--", "-c", "SELECT 1"]] {
        let said = run(data.command(command)).await;
        said.failed(1, &["made by PostgreSQL 14", "left untouched", "--data"]);
    }
    assert_eq!(listing(&data.cluster()), before);
}

#[tokio::test]
async fn something_else_in_its_place_is_never_touched() {
    let data = Data::missing();
    fs::create_dir_all(data.cluster()).unwrap();
    fs::write(data.cluster().join("thesis.txt"), "years of work").unwrap();
    let before = listing(&data.cluster());
    run(data.command(&["serve"])).await.failed(1, &["not a Postgres cluster", "left alone"]);
    assert_eq!(listing(&data.cluster()), before);
}

#[tokio::test]
async fn making_the_cluster_can_be_interrupted_at_any_time() {
    let data = Data::missing();
    fs::create_dir_all(data.path().join("postgres.unfinished/base")).unwrap();
    fs::write(data.path().join("postgres.unfinished/PG_VERSION"), "15\n").unwrap();
    assert_eq!(data.sql("SELECT 1").await, "1");
    assert!(!data.path().join("postgres.unfinished").exists());
}

#[tokio::test]
async fn ctrl_c_stops_the_program_and_the_program_stops_postgres() {
    let data = Data::ready().await;
    let mut command = data.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.process_group(0);
    let mut server = Running::start(command);
    server.says("Fairlist is at").await;

    // As a terminal does it: to the whole group.
    killpg(server.pid(), Signal::SIGINT).unwrap();
    assert_eq!(server.ended().await.code(), Some(0));
    assert!(data.is_quiet());
    assert!(data.log().contains("database system is shut down"), "{}", data.log());
}

#[tokio::test]
async fn a_client_that_dawdles_does_not_keep_it_from_ending() {
    let data = Data::ready().await;
    let server = Running::serve(&data).await;
    // Half a request, and then nothing for ever.
    let mut client = server.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut client, b"POST /staff/sign-in HTTP/1.1\r\nHost: ")
        .await
        .unwrap();
    assert!(server.answers().await, "others are served meanwhile");

    let told = Instant::now();
    server.stop().await;
    assert!(told.elapsed() < Duration::from_secs(20), "{:?}", told.elapsed());
    assert!(data.is_quiet());
}

#[tokio::test]
async fn a_signal_while_starting_leaves_nothing_behind() {
    let data = Data::ready().await;
    let mut server = Running::start(data.command(&["serve", "--listen", "127.0.0.1:0"]));
    server.says("Starting PostgreSQL").await;
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().await.code(), Some(0));
    // It was told to stop, and is adopted if it has not yet.
    assert_eq!(data.sql("SELECT 1").await, "1");
    assert!(data.is_quiet());
}

#[tokio::test]
async fn other_commands_use_the_running_server() {
    let data = Data::ready().await;
    let server = Running::serve(&data).await;
    let postmaster = data.postmaster();
    assert_eq!(data.sql("SELECT 1").await, "1");
    assert_eq!(data.postmaster(), postmaster, "and leave it running");
    assert!(server.answers().await);
    server.stop().await;
}

#[tokio::test]
async fn other_commands_start_it_for_their_duration() {
    let data = Data::ready().await;
    assert_eq!(data.sql("SELECT 1").await, "1");
    assert!(data.is_quiet());
    // psql's exit code is the command's.
    run(data.command(&["psql", "--", "-c", "SELEC"])).await.failed(1, &["syntax error"]);
    assert!(data.is_quiet());
}

#[tokio::test]
async fn a_server_goes_on_when_the_command_that_started_postgres_ends() {
    let data = Data::ready().await;
    // Says that it runs, then stays until it is told to go on.
    let mut psql = data.command(&["psql", "--", "-X", "-q", "-A", "-t"]);
    psql.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut psql = psql.spawn().unwrap();
    let mut input = psql.stdin.take().unwrap();
    let mut output = tokio::io::BufReader::new(psql.stdout.take().unwrap());
    let mut line = String::new();
    tokio::io::AsyncWriteExt::write_all(&mut input, b"SELECT 'here';\n").await.unwrap();
    tokio::io::AsyncBufReadExt::read_line(&mut output, &mut line).await.unwrap();
    assert_eq!(line, "here\n");

    let server = Running::serve(&data).await;
    let postmaster = data.postmaster();
    drop(input);
    assert!(psql.wait().await.unwrap().success());

    assert_eq!(data.postmaster(), postmaster);
    assert!(server.answers().await);
    server.stop().await;
    assert!(data.is_quiet());
}

#[tokio::test]
async fn the_path_of_the_data_may_be_long_and_odd() {
    let data = Data::ready_below(&format!("{}/odd \"name\", 'with' all", "long".repeat(30))).await;
    let server = Running::serve(&data).await;
    assert_eq!(data.sql("SELECT 1").await, "1");
    let socket = data.socket_directory();

    assert!(!socket.starts_with(data.path()), "{}", socket.display());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o700);
    server.stop().await;
    assert!(!socket.exists(), "{}", socket.display());
}

#[tokio::test]
async fn programs_that_are_no_postgres_are_refused_by_name_of_the_setting() {
    let data = Data::missing();
    let none = data.root().to_str().unwrap();
    run(data.command(&["psql", "--postgres-bin", none])).await.failed(1, &["--postgres-bin", none]);
}

// ── as root ────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn roots_server_runs_as_an_unprivileged_user() {
    if !are_we_root() {
        return;
    }
    let data = Data::ready().await;
    let server = Running::serve(&data).await;

    let postmaster = data.postmaster().expect("Postgres runs");
    let account = owner(postmaster);
    assert!(["postgres", "nobody"].contains(&&*account), "{account}");
    let groups = fs::read_to_string(format!("/proc/{postmaster}/status")).unwrap();
    let groups = groups.lines().find(|line| line.starts_with("Groups:")).unwrap();
    assert_eq!(groups.trim_start_matches("Groups:").trim(), "", "root's groups are given up");

    // The cluster is theirs; what lies around it is not, so that they cannot put anything in our way.
    let uid = User::from_name(&account).unwrap().unwrap().uid.as_raw();
    assert_eq!(fs::metadata(data.cluster()).unwrap().uid(), uid);
    assert_eq!(fs::metadata(data.path()).unwrap().uid(), 0);
    assert_eq!(fs::metadata(data.root()).unwrap().uid(), 0);
    server.stop().await;
}

#[tokio::test]
async fn an_empty_directory_of_roots_is_made_passable() {
    if !are_we_root() {
        return;
    }
    let data = Data::empty(0o700);
    assert_eq!(data.sql("SELECT 1").await, "1");
    assert_eq!(fs::metadata(data.path()).unwrap().permissions().mode() & 0o777, 0o711);
}

#[tokio::test]
async fn a_parent_that_bars_the_way_is_named() {
    if !are_we_root() {
        return;
    }
    let data = Data::below("private/further/data");
    let private = data.root().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();

    let said = run(data.command(&["serve"])).await;

    said.failed(1, &[&format!("may not pass through {}. ", private.display()), "--data /var/lib/fairlist"]);
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o700, "and is left as it is");
}

/// A copy of the binary that every user may run, wherever the build directory is.
fn public_copy(data: &Data) -> PathBuf {
    let copy = data.root().join("fairlist");
    fs::copy(env!("CARGO_BIN_EXE_fairlist"), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

#[tokio::test]
async fn other_users_of_the_machine_cannot_connect() {
    if !are_we_root() {
        return;
    }
    let (Ok(Some(owner_of_data)), Ok(Some(stranger))) =
        (User::from_name("nobody"), User::from_name("daemon"))
    else {
        return;
    };
    // Run by a user who is not root.
    let data = Data::empty(0o755);
    std::os::unix::fs::chown(data.path(), Some(owner_of_data.uid.as_raw()), Some(owner_of_data.gid.as_raw()))
        .unwrap();
    let copy = public_copy(&data);
    let as_owner = |arguments: &[&str]| {
        let mut command = tokio::process::Command::from({
            let mut command = std::process::Command::new(&copy);
            command.uid(owner_of_data.uid.as_raw()).gid(owner_of_data.gid.as_raw()).current_dir("/");
            command
        });
        command
            .args(arguments)
            .env("FAIRLIST_DATA", data.path())
            .env_remove("DATABASE_URL")
            .kill_on_drop(true);
        command
    };
    let mut server = Running::start(as_owner(&["serve", "--listen", "127.0.0.1:0"]));
    server.says("Fairlist is at").await;
    let postmaster: Pid = data.postmaster().expect("Postgres runs");
    assert_eq!(owner(postmaster), "nobody");
    assert_eq!(run(as_owner(&["psql", "--", "-Atc", "SELECT 1"])).await.succeeded(), "1\n");

    // Even if the directory lets them pass, the server asks the kernel who they are.
    let run_directory = data.path().join("run");
    for mode in [0o700, 0o777] {
        fs::set_permissions(&run_directory, fs::Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(run_directory.join(".s.PGSQL.5432"), fs::Permissions::from_mode(0o777)).unwrap();
        for role in ["postgres", "fairlist"] {
            let mut psql = std::process::Command::new("psql");
            psql.arg("-h").arg(&run_directory).args(["-U", role, "-c", "SELECT 1", "fairlist"]);
            psql.uid(stranger.uid.as_raw()).gid(stranger.gid.as_raw()).current_dir("/");
            let said = run(psql.into()).await;
            let refused = if mode == 0o700 { "Permission denied" } else { "Peer authentication failed" };
            said.failed(2, &[refused]);
        }
    }
    server.stop().await;
    assert!(data.is_quiet());
}
