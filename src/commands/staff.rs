//! `fairlist staff`: who may sign in.

use std::process::ExitCode;

use super::{Database, Failure};
use crate::clock::{Clock, Entropy};
use crate::config::{Common, NewStaffArguments};
use crate::db::staff::{AddStaffOutcome, DisableStaffOutcome, LINK_LIFETIME, NewStaff};
use crate::db::{Db, PoolSizes};
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::secret::token_hash;

/// Adds a member of the staff and prints the one-time link by which they choose a password.
pub(super) async fn add(common: &Common, new: &NewStaffArguments) -> Result<ExitCode, Failure> {
    let base_url = new.address.base_url(new.address.listen)?;
    let database = Database::attach(common).await?;
    let added = add_to(&database, new, base_url.as_str()).await;
    database.stop().await?;
    println!("{}", added?);
    Ok(ExitCode::SUCCESS)
}

/// Takes somebody's access away.
pub(super) async fn disable(common: &Common, email: &EmailAddress) -> Result<ExitCode, Failure> {
    let database = Database::attach(common).await?;
    let disabled = disable_in(&database, email).await;
    database.stop().await?;
    println!("{}", disabled?);
    Ok(ExitCode::SUCCESS)
}

async fn disable_in(database: &Database, email: &EmailAddress) -> Result<String, Failure> {
    database.migrate().await?;
    let db = Db::new(&database.options, PoolSizes::default(), Clock::database());
    let outcome = match db.staff_credentials(email).await? {
        Some(found) => db.disable_staff(found.staff).await?,
        None => DisableStaffOutcome::Nobody,
    };
    db.close().await;
    let email = email.value();
    match outcome {
        DisableStaffOutcome::Disabled => {
            Ok(format!("{email} has no access any more, and every session is over."))
        }
        DisableStaffOutcome::Nobody => {
            Err(Failure::Outcome(format!("{email} is nobody of the staff with access. Nothing was changed")))
        }
        DisableStaffOutcome::LastOwner { organization } => Err(Failure::Outcome(format!(
            "{email} is the last owner of {organization}: add another owner first. Nothing was changed"
        ))),
    }
}

async fn add_to(database: &Database, new: &NewStaffArguments, base_url: &str) -> Result<String, Failure> {
    database.migrate().await?;
    let db = Db::new(&database.options, PoolSizes::default(), Clock::database());
    let token = hex::encode(Entropy.bytes());
    // Until they say otherwise, people go by what stands before the @.
    let name = match &new.name {
        Some(name) => name.clone(),
        None => PersonName::parse(new.email.value().split('@').next().unwrap_or_default())
            .map_err(|problem| Failure::Outcome(problem.to_string()))?,
    };
    let staff =
        NewStaff { organization: new.organization.as_str(), email: &new.email, name: &name, role: new.role };
    let outcome = db.add_staff(&staff, token_hash(&token)).await;
    db.close().await;
    let email = new.email.value();
    let said = match outcome? {
        AddStaffOutcome::Added(_) => format!("{email} is {} of {} now.", new.role, new.organization.as_str()),
        AddStaffOutcome::LinkRenewed(_) => {
            format!("{email} was {} of {} already.", new.role, new.organization.as_str())
        }
        AddStaffOutcome::OtherRole(role) => {
            return Err(Failure::Outcome(format!(
                "{email} is {role} of {} already, and this does not change roles. Nothing was changed",
                new.organization.as_str()
            )));
        }
        AddStaffOutcome::Elsewhere => {
            return Err(Failure::Outcome(format!(
                "{email} belongs to the staff of another organization. Nothing was changed"
            )));
        }
    };
    Ok(format!(
        "{said}\nThis link lets them choose a password, once, within {} days:\n\n  {base_url}staff/link/{token}\n",
        LINK_LIFETIME.num_days()
    ))
}
