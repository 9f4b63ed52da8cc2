//! A database for each test: a clone of a template that holds the migrations, checked and dropped at the end.

use std::os::unix::fs::PermissionsExt as _;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fairlist::clock::Clock;
use fairlist::db::check::CheckSettings;
use fairlist::db::{Db, PoolSizes, migrate, postgres};
use fairlist::domain::secret::Secret;
use fairlist::domain::transition::Kind;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// The schema, version by version.
pub static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Held while the template is made, so that test binaries that start together make it once.
const TEMPLATE_LOCK: i64 = 0x_6661_6972;

/// A database of this test's own, with the migrations applied.
///
/// Dropping it runs the invariants over what the test left behind, and then drops the database.
pub struct TestDatabase {
    options: PgConnectOptions,
    db: Db,
    clock: Clock,
    sql: PgPool,
    invariants: bool,
    server: Option<OwnServer>,
}

impl TestDatabase {
    /// Decides by the database's clock.
    pub async fn new() -> Self {
        Self::clone_of(template().await, Clock::database()).await
    }

    /// Decides by a clock that stands still at `start` until the test moves it.
    pub async fn at(start: &str) -> Self {
        Self::clone_of(template().await, scripted(start)).await
    }

    /// Without any table.
    pub async fn empty(start: &str) -> Self {
        Self::clone_of("template0", scripted(start)).await
    }

    /// On a Postgres of its own, which keeps its promises (fsync on), and which the test may kill: like the
    /// program's, it is started again by itself.
    pub async fn on_own_server() -> Self {
        let server = OwnServer::start().await;
        let options = server.server.as_ref().expect("started").options();
        migrate::migrate(&options).await.expect("the migrations apply");
        Self::connect(options, Clock::database(), Some(server))
    }

    async fn clone_of(template: &str, clock: Clock) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut admin = PgConnection::connect_with(&server()).await.expect("connect to the test server");
        // A process id comes round again on a server that is kept for long.
        run(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        run(&mut admin, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        admin.close().await.expect("close");
        Self::connect(server().database(&name), clock, None)
    }

    fn connect(options: PgConnectOptions, clock: Clock, server: Option<OwnServer>) -> Self {
        Self {
            db: Db::new(&options, PoolSizes::default(), clock.clone()),
            sql: PgPoolOptions::new().max_connections(4).connect_lazy_with(options.clone()),
            options,
            clock,
            invariants: true,
            server,
        }
    }

    /// The process of its own server.
    pub fn postmaster(&self) -> Pid {
        self.server.as_ref().and_then(OwnServer::postmaster).expect("its own server runs")
    }

    /// The database as the program sees it, once the feed has all that was recorded. Every act in it is one of those that
    /// are published for its kind.
    pub async fn fed(&self) -> &Db {
        let db = self.db();
        for organization in db.unfed_organizations().await.expect("who is to be fed") {
            while db.relay(organization).await.expect("copied").more {}
        }
        let sql = "SELECT DISTINCT kind, act FROM transitions";
        let found: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(self.sql()).await.expect("acts");
        for (kind, act) in found {
            let published = Kind::parse(&kind).expect("a kind").acts();
            assert!(published.iter().any(|known| known.as_str() == act), "{kind} came about by {act}");
        }
        db
    }

    /// The database as the program sees it.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The clock the program decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// For what a test arranges or looks at by SQL of its own.
    pub fn sql(&self) -> &PgPool {
        &self.sql
    }

    /// Where it is, for a `Db` with other pools or through a proxy.
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// Where it is, for a program started by the test.
    pub fn url(&self) -> String {
        let options = &self.options;
        let name = options.get_database().expect("a name");
        format!("postgres://postgres@{}:{}/{name}", options.get_host(), options.get_port())
    }

    /// The test breaks an invariant to see that it is found: do not look for it again at the end.
    pub fn broken_on_purpose(&mut self) {
        self.invariants = false;
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let options = self.options();
        let shared = self.server.is_none();
        let clock = self.clock.clone();
        let look = self.invariants && !std::thread::panicking();
        // A runtime of its own: the test's may be single-threaded, and is busy with this call.
        let ending = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async {
                let broken = if look { broken_invariants(&options, clock).await } else { Vec::new() };
                if let Some(name) = options.get_database().filter(|_| shared) {
                    let admin = PgConnection::connect_with(&server()).await;
                    let mut admin = admin.expect("connect to the test server");
                    run(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
                }
                broken
            })
        });
        let broken = ending.join();
        if !std::thread::panicking() {
            let broken = broken.expect("the invariants could be read and the database dropped");
            assert!(broken.is_empty(), "after the test, invariants are broken:\n{}", broken.join("\n"));
        }
    }
}

/// A private Postgres like the program's, in a directory of its own.
struct OwnServer {
    server: Option<postgres::Server>,
    directory: TempDir,
}

impl OwnServer {
    async fn start() -> Self {
        // Where the server runs as another user, that user passes through.
        let directory = tempfile::Builder::new()
            .prefix("fairlist-test-")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a directory");
        let settings = postgres::Settings { data: directory.path().join("data"), binaries: None };
        let server = postgres::Server::serve(&settings).await.expect("Postgres starts");
        Self { server: Some(server), directory }
    }

    fn postmaster(&self) -> Option<Pid> {
        let text =
            std::fs::read_to_string(self.directory.path().join("data/postgres/postmaster.pid")).ok()?;
        text.lines().next()?.parse().ok().map(Pid::from_raw)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let postmaster = self.postmaster();
        // Asks it to stop; the directory can go when it has.
        drop(self.server.take());
        let patience = Instant::now() + Duration::from_secs(10);
        while postmaster.is_some_and(|pid| kill(pid, None).is_ok()) && Instant::now() < patience {
            std::thread::yield_now();
        }
    }
}

/// I1–I24 on what the test left behind.
async fn broken_invariants(options: &PgConnectOptions, clock: Clock) -> Vec<String> {
    let sizes = PoolSizes { pages: 1, workers: 1, sessions: 1 };
    let db = Db::new(options, sizes, clock);
    // No service runs: what nobody has done yet is no fault.
    let settings = CheckSettings { served: false, ..CheckSettings::new(secret()) };
    let findings = db.check(&settings).await.expect("the database can be read");
    db.close().await;
    findings
        .into_iter()
        .filter(|found| !found.lag)
        .map(|found| format!("{}: {}", found.invariant, found.sentence))
        .collect()
}

/// The secret of every test's installation, as its setting says it.
pub const SECRET: &str = "\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\
                          \u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}";

/// The secret of every test's installation.
pub fn secret() -> Secret {
    Secret::new(SECRET.into()).expect("long enough")
}

/// The server that `tests/run` started, or one that the developer keeps.
fn server() -> PgConnectOptions {
    let url = std::env::var("FAIRLIST_TEST_POSTGRES").expect(
        "these tests need a Postgres: run them by `tests/run [NAME]`, which starts one, \
         or set FAIRLIST_TEST_POSTGRES to the URL of a superuser on a server of your own",
    );
    PgConnectOptions::from_str(&url).expect("FAIRLIST_TEST_POSTGRES is a URL").ssl_mode(PgSslMode::Disable)
}

fn scripted(start: &str) -> Clock {
    Clock::scripted(start.parse().expect("an instant such as 2027-03-01T10:00:00Z"))
}

async fn template() -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    TEMPLATE.get_or_init(make_template).await
}

/// Makes the template unless a binary before this one has. Its name says which migrations it holds, so that a
/// server that is kept is not asked for an old one.
async fn make_template() -> String {
    let digest = MIGRATIONS
        .iter()
        .flat_map(|migration| migration.checksum.iter())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let name = format!("template_{digest:016x}");
    let mut admin = PgConnection::connect_with(&server()).await.expect("connect to the test server");
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut admin).await.expect("lock");
    let made: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(&name)
        .fetch_one(&mut admin)
        .await
        .expect("look for the template");
    if !made {
        run(&mut admin, format!("DROP DATABASE IF EXISTS {name}_unfinished WITH (FORCE)")).await;
        run(&mut admin, format!("CREATE DATABASE {name}_unfinished")).await;
        let mut template = PgConnection::connect_with(&server().database(&format!("{name}_unfinished")))
            .await
            .expect("connect to the template");
        MIGRATIONS.run(&mut template).await.expect("the migrations apply");
        template.close().await.expect("close");
        run(&mut admin, format!("ALTER DATABASE {name}_unfinished RENAME TO {name}")).await;
    }
    // Ends the lock, too.
    admin.close().await.expect("close");
    name
}

/// Names of databases cannot be bound; the ones here are made of digits and letters of our own.
async fn run(connection: &mut PgConnection, statement: String) {
    let result = connection.execute(AssertSqlSafe(statement.clone())).await;
    if let Err(error) = result {
        panic!("{statement}: {error}");
    }
}
