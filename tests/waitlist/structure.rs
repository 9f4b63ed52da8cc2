//! The shape of the project: what may know of what, and what may stand where. Reads the sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

/// Imports go downwards only. A module that is not here has no layer yet: give it one.
///
/// `main → web, workers → waitlist, booking, messages → db → domain`; what stands on the lowest layer is known
/// to all but `domain`, which is pure.
const LAYERS: &[(&str, u8)] = &[
    ("clock", 0),
    ("failpoint", 0),
    ("metrics", 0),
    ("tls", 0),
    ("traces", 0),
    ("logging", 3),
    ("domain", 1),
    ("db", 2),
    ("booking", 3),
    ("config", 3),
    ("messages", 3),
    ("waitlist", 3),
    ("webhooks", 3),
    ("workers", 4),
    ("web", 4),
    ("commands", 5),
    ("main", 5),
];

/// No file is two things.
const LONGEST: usize = 600;

struct Source {
    /// From the project's top.
    path: String,
    text: String,
}

impl Source {
    /// The code without its comments, line for line.
    fn code(&self) -> String {
        let mut code = String::new();
        for line in self.text.lines() {
            let comment = line.find("//").filter(|at| !line[..*at].ends_with(':'));
            code.push_str(&line[..comment.unwrap_or(line.len())]);
            code.push('\n');
        }
        code
    }

    /// The top-level module that it is part of.
    fn module(&self) -> &str {
        let inner = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        inner.split('/').next().expect("split gives at least one")
    }

    fn is_in(&self, module: &str) -> bool {
        self.path.starts_with("src/") && self.module() == module
    }
}

fn read(folder: &str, ending: &str) -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![top.join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("read the folder").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                sources.push(Source { text: text(&path), path: below(top, &path) });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn text(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn below(top: &Path, path: &Path) -> String {
    path.strip_prefix(top).expect("below the top").display().to_string()
}

/// Every line of code that matches, as `path:line: text`.
fn lines(sources: &[Source], pattern: &str, allowed: impl Fn(&Source) -> bool) -> String {
    let pattern = Regex::new(pattern).expect("a pattern");
    let mut found = String::new();
    for source in sources.iter().filter(|source| !allowed(source)) {
        for (number, line) in source.code().lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
            let _ = writeln!(found, "{}:{}: {}", source.path, number + 1, line.trim());
        }
    }
    found
}

fn assert_none(found: &str, rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{found}");
}

/// The top-level modules that a file names through `crate::`, also inside braces.
fn named_modules(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        if let Some(inner) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut first = true;
            for c in inner.chars() {
                match c {
                    _ if depth == 0 && first && (c.is_alphanumeric() || c == '_') => word.push(c),
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        named.insert(std::mem::take(&mut word));
                        first = true;
                    }
                    ':' => first = false,
                    _ => {}
                }
            }
            named.insert(word);
        } else {
            named.insert(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    named.retain(|name| name.starts_with(char::is_lowercase));
    named
}

#[test]
fn imports_go_one_way() {
    let layer = |module: &str| LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer);
    let mut wrong = String::new();
    for source in read("src", "rs").iter().filter(|source| source.path != "src/lib.rs") {
        let Some(own) = layer(source.module()) else {
            let _ = writeln!(wrong, "{} is on no layer", source.path);
            continue;
        };
        for named in named_modules(&source.code().replace("fairlist::", "crate::")) {
            let downwards = match layer(&named) {
                Some(other) if source.is_in("domain") => named == "domain" && other == own,
                Some(other) => other <= own,
                None => false,
            };
            if !downwards {
                let _ = writeln!(wrong, "{} knows of {named}", source.path);
            }
        }
    }
    assert_none(&wrong, "a lower layer does not know of a higher one, and domain knows only itself");
}

#[test]
fn the_reader_of_imports_sees_through_braces() {
    let code = "use crate::{clock::Clock, db::{Db, x::y}, web};\nlet a = crate::domain::offer::Offer;";
    assert_eq!(named_modules(code).into_iter().collect::<Vec<_>>(), ["clock", "db", "domain", "web"]);
}

#[test]
fn sql_stands_only_in_db_and_axum_only_in_web() {
    let sources = read("src", "rs");
    assert_none(
        // To name a database and to tell why it cannot be reached is not SQL.
        &lines(
            &sources,
            r"\bsqlx::([^pE]|postgres::[^Pn])|\bPgPool|\bPgConnection\b|\bquery(_as|_scalar)?!\(",
            |s| s.is_in("db"),
        ),
        "SQL only in src/db",
    );
    assert_none(
        &lines(&sources, r"\b(axum|tower_sessions|tower_http)::", |s| s.is_in("web")),
        "axum only in src/web",
    );
    assert_none(
        &lines(&sources, r"\b(async|tokio|sqlx|axum|reqwest|lettre)\b", |s| !s.is_in("domain")),
        "domain is pure",
    );
}

#[test]
fn time_and_randomness_come_from_the_clock() {
    let sources = read("src", "rs");
    assert_none(
        &lines(
            &sources,
            r"\b(Utc|Local|SystemTime)::now\(|\bUuid::(new_v4|now_v7)\(|\brand::(rng|random)\b|\bthread_rng\b",
            |source| source.path == "src/clock.rs",
        ),
        "time and randomness come from src/clock.rs",
    );
    // In SQL too: a transaction is judged by the instant read after its lock.
    assert_none(
        &lines(
            &sources,
            r"(^|[^.:\w])now\(\)|CURRENT_TIMESTAMP|LOCALTIMESTAMP|(transaction|statement)_timestamp\(",
            |_| false,
        )
        .lines()
        .filter(|line| !line.contains("fn now()"))
        .collect::<String>(),
        "instants are bound, not asked of the server in the middle of a statement",
    );
    assert_none(
        &lines(&sources, r"clock_timestamp\(\)", |source| {
            matches!(
                source.path.as_str(),
                // The lock, `Db::now`, and sign-in, which has a pool of its own and decides nothing about places.
                "src/db/locked_event.rs" | "src/db/mod.rs" | "src/db/sessions.rs" | "src/db/staff.rs"
                // How long a backend has been idle is told by the server's own clock.
                | "src/db/check/service.rs"
                // The raw side of the benchmarks does by hand what we do through the lock.
                | "src/db/bench.rs"
            )
        }),
        "the database's clock is read after the lock, or by Db::now",
    );
    let migrations = read("migrations", "sql");
    assert!(!migrations.is_empty());
    assert_none(
        &lines(&migrations, r"(?i)\bnow\(\)|current_timestamp|clock_timestamp", |_| false),
        "no default reads the server's clock",
    );
}

#[test]
fn an_event_row_is_locked_in_one_place_and_nobody_is_skipped_by_a_lock() {
    let sources = read("src", "rs");
    assert_none(
        &lines(&sources, r"(?i)FROM events\b.*FOR (NO KEY )?UPDATE", |source| {
            // The raw side of the benchmarks locks by hand.
            matches!(source.path.as_str(), "src/db/events.rs" | "src/db/bench.rs")
        }),
        "the event row is locked by with_event",
    );
    assert_none(
        &lines(&sources, r"(?i)SKIP LOCKED", |source| {
            matches!(
                source.path.as_str(),
                "src/db/passes.rs"
                    | "src/db/messages.rs"
                    | "src/db/outbox.rs"
                    | "src/db/import.rs"
                    | "src/db/feed.rs"
                    | "src/db/booking_attempts.rs"
                    | "src/db/webhook_outbox.rs"
            )
        }),
        "SKIP LOCKED shares pass requests, messages, imports, feeds, booking attempts and deliveries among workers; nobody is chosen by it",
    );
}

#[test]
fn pages_escape_everything_and_obey_their_own_policy() {
    let mut templates = read("templates", "html");
    assert_none(&lines(&templates, r"\|\s*safe\b", |_| false), "no |safe");
    // A mail has no policy, and its readers know no other styles than inline ones.
    templates.retain(|template| !template.path.starts_with("templates/mail/"));
    // What remains is what a browser is sent.
    let askama = Regex::new(r"(?s)\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}").expect("a pattern");
    for template in &mut templates {
        template.text = askama.replace_all(&template.text, "").into_owned();
    }
    for (pattern, rule) in [
        (r"(?i)\sstyle\s*=|<style\b", "no inline style"),
        (r"(?i)\son[a-z]+\s*=\s*[\x22']|javascript:", "no inline handlers"),
    ] {
        assert_none(&lines(&templates, pattern, |_| false), rule);
    }
    let scripts = lines(&templates, r"(?i)<script\b", |_| false);
    let inline: String = scripts.lines().filter(|line| !line.contains(" src=")).collect();
    assert_none(&inline, "no inline script");
}

#[test]
fn no_lint_is_switched_off_silently() {
    let mut sources = read("src", "rs");
    sources.extend(read("tests", "rs"));
    // In two parts, so that this line is not what it looks for.
    let pattern = format!("{}{}", r"#!?\[(cfg_attr\(.*)?all", r"ow\(");
    assert_none(&lines(&sources, &pattern, |_| false), "#[expect] with a reason");
    assert_none(
        &lines(&sources, r"#!?\[expect\([^)]*\)\]", |_| false)
            .lines()
            .filter(|line| !line.contains("reason"))
            .collect::<String>(),
        "an expectation says why",
    );
    assert_none(&lines(&sources, &format!("{}{}", "#\\[ig", "nore"), |_| false), "no test is left out");
}

#[test]
fn files_say_what_they_are_and_are_one_thing() {
    let mut sources = read("src", "rs");
    sources.extend(read("tests", "rs"));
    let mut wrong = String::new();
    for source in &sources {
        let length = source.text.lines().count();
        if length > LONGEST {
            let _ = writeln!(wrong, "{} has {length} lines", source.path);
        }
        if !source.text.starts_with("//! ") {
            let _ = writeln!(wrong, "{} does not say what it is", source.path);
        }
    }
    for source in read("templates", "html").iter().filter(|source| source.text.lines().count() > LONGEST) {
        let _ = writeln!(wrong, "{} is too long", source.path);
    }
    assert_none(&wrong, "files begin with what they are, and stay short");
}
