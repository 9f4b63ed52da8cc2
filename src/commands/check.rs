//! `fairlist check`: what breaks, with the ids.

use std::fmt::Write as _;
use std::process::ExitCode;

use tracing::warn;

use super::{Database, Failure};
use crate::clock::Clock;
use crate::config::{CheckArguments, Common};
use crate::db::check::{CheckSettings, Finding};
use crate::db::{Db, PoolSizes, migrate};
use crate::domain::secret::Secret;

/// Checks every invariant and prints what does not hold; fails if anything is worse than late.
pub(super) async fn check(common: &Common, arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let secret = arguments.secret(&common.data)?;
    if secret.is_none() {
        warn!("No secret is given and none is kept: whether links belong to their offers is not checked");
    }
    let database = Database::attach(common).await?;
    let found = findings(&database, secret).await;
    database.stop().await?;
    let found = found?;
    print!("{}", report(&found));
    Ok(if found.iter().all(|finding| finding.lag) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn findings(database: &Database, secret: Option<Secret>) -> Result<Vec<Finding>, Failure> {
    // Another schema would be misread; bringing it up to date is not for a command that only looks.
    let (found, known) = (migrate::newest_of(&database.options).await?, migrate::newest());
    if found != Some(known) {
        let found = found.map_or("none".to_owned(), |found| found.to_string());
        return Err(Failure::Outcome(format!(
            "the database has schema {found}, and this program checks schema {known}: `fairlist migrate` brings it \
             up to date"
        )));
    }
    // One connection, so that any other of this name is another program's.
    let db = Db::new(&database.options, PoolSizes { pages: 1, workers: 1, sessions: 1 }, Clock::database());
    let served = db.is_served().await?;
    let settings = CheckSettings { secret, served, ..CheckSettings::default() };
    let findings = db.check(&settings).await?;
    db.close().await;
    Ok(findings)
}

/// One paragraph for each invariant that does not hold, lag last.
fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for lag in [false, true] {
        let mut last = None;
        for finding in findings.iter().filter(|finding| finding.lag == lag) {
            let invariant = finding.invariant;
            if last.replace(invariant) != Some(invariant) {
                let late = if lag { "only late, for no service runs" } else { "does not hold" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{invariant} {late}: {}", invariant.rule());
            }
            let ids: Vec<String> = finding.ids.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "  - {} [{}]", finding.sentence, ids.join(" "));
        }
    }
    if findings.iter().all(|finding| finding.lag) {
        text.push_str("Everything that must hold does (I1–I24).\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::check::Invariant;
    use uuid::Uuid;

    #[test]
    fn the_report_names_what_breaks_with_its_ids() {
        assert_eq!(report(&[]), "Everything that must hold does (I1–I24).\n");
        let finding = |invariant, sentence: &str, lag| Finding {
            invariant,
            ids: vec![Uuid::nil()],
            sentence: sentence.to_owned(),
            lag,
        };
        let late = finding(Invariant::Overdue, "an offer is overdue", true);
        assert_eq!(
            report(&[late.clone(), finding(Invariant::OnePromise, "a place is booked twice", false)]),
            "I2 does not hold: A place is promised once: to one hold or to one booking.\n  \
             - a place is booked twice [00000000-0000-0000-0000-000000000000]\n\
             I9 only late, for no service runs: A pending offer is ended within 60 seconds of its deadline.\n  \
             - an offer is overdue [00000000-0000-0000-0000-000000000000]\n"
        );
        assert!(report(&[late]).ends_with("Everything that must hold does (I1–I24).\n"));
    }
}
