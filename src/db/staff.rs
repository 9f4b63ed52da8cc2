//! Staff: who they are, their passwords' hashes, and the one-time links by which they set them.
//!
//! Read through the sessions' pool, so that sign-in answers while the pages' pool is exhausted.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, audit};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::ids::{OrganizationId, StaffId};
use crate::domain::reason::Reason;
use crate::domain::role::Role;

/// How long an invitation or a link to a new password works.
pub const LINK_LIFETIME: Duration = Duration::days(3);

/// A member of the staff who may act.
#[derive(Clone, Debug)]
pub struct StaffMember {
    /// Their id.
    pub id: StaffId,
    /// Where they work.
    pub organization: OrganizationId,
    /// Its name.
    pub organization_name: String,
    /// Their address.
    pub email: String,
    /// Their name.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Goes up with every new password.
    pub password_version: i32,
}

/// What sign-in compares with.
#[derive(Debug)]
pub struct Credentials {
    /// Whose.
    pub staff: StaffId,
    /// The hash in PHC form; `None` until a password was set.
    pub password_hash: Option<String>,
    /// The version that the session will name.
    pub password_version: i32,
}

/// Somebody to be added.
#[derive(Debug)]
pub struct NewStaff<'a> {
    /// The organization's name; made if there is none of that name.
    pub organization: &'a str,
    /// Their address.
    pub email: &'a EmailAddress,
    /// Their name.
    pub name: &'a PersonName,
    /// Their role.
    pub role: Role,
}

/// What came of adding somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddStaffOutcome {
    /// A new member; the link lets them set a password.
    Added(StaffId),
    /// They were already there, in that organization and role; the link lets them set a new password.
    LinkRenewed(StaffId),
    /// They are there with another role, which this does not change.
    OtherRole(Role),
    /// The address belongs to another organization's staff.
    Elsewhere,
}

/// What came of taking somebody's access away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisableStaffOutcome {
    /// Gone, with every session and link.
    Disabled,
    /// There is no such member with access.
    Nobody,
    /// Without them nobody could run this organization.
    LastOwner {
        /// Its name.
        organization: String,
    },
}

struct MemberRow {
    id: Uuid,
    organization_id: Uuid,
    organization_name: String,
    email: String,
    name: String,
    role: String,
    password_version: i32,
}

impl TryFrom<MemberRow> for StaffMember {
    type Error = DbError;

    fn try_from(row: MemberRow) -> Result<Self, DbError> {
        Ok(Self {
            id: StaffId(row.id),
            organization: OrganizationId(row.organization_id),
            organization_name: row.organization_name,
            email: row.email,
            name: row.name,
            role: word(Role::parse, "role", &row.role)?,
            password_version: row.password_version,
        })
    }
}

/// An address for an organization's pages: lower case, hyphens, never empty.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-').chars().take(60).collect::<String>();
    if slug.is_empty() { "organization".to_owned() } else { slug }
}

impl Db {
    /// The member of that id, unless disabled.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn staff_member(&self, id: StaffId) -> Result<Option<StaffMember>, DbError> {
        sqlx::query_as!(
            MemberRow,
            "SELECT s.id, s.organization_id, o.name AS organization_name, s.email, s.name, s.role, s.password_version
             FROM staff s JOIN organizations o ON o.id = s.organization_id
             WHERE s.id = $1 AND s.disabled_at IS NULL",
            id.0
        )
        .fetch_optional(self.sessions())
        .await?
        .map(StaffMember::try_from)
        .transpose()
    }

    /// What sign-in compares with; `None` for nobody, or somebody disabled.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn staff_credentials(&self, email: &EmailAddress) -> Result<Option<Credentials>, DbError> {
        let row = sqlx::query!(
            "SELECT id, password_hash, password_version FROM staff WHERE email_canonical = $1 AND disabled_at IS NULL",
            email.canonical()
        )
        .fetch_optional(self.sessions())
        .await?;
        Ok(row.map(|row| Credentials {
            staff: StaffId(row.id),
            password_hash: row.password_hash,
            password_version: row.password_version,
        }))
    }

    /// Adds a member, and the organization where there is none of that name, with a one-time link of which only
    /// the hash is kept. Adding the same person again makes a new link and takes the old ones away; whoever was
    /// disabled is back.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn add_staff(
        &self,
        new: &NewStaff<'_>,
        link_hash: [u8; 32],
    ) -> Result<AddStaffOutcome, DbError> {
        let now = self.session_now().await?;
        let mut tx = self.sessions().begin().await?;
        // Two at once for the same new name would make two organizations.
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtext('fairlist add staff'))")
            .execute(&mut *tx)
            .await?;
        let found = sqlx::query_scalar!(
            "SELECT id FROM organizations WHERE name = $1 ORDER BY created_at",
            new.organization
        )
        .fetch_optional(&mut *tx)
        .await?;
        let organization = if let Some(id) = found {
            id
        } else {
            let id = self.entropy().id();
            let slug = slug(new.organization);
            let taken = sqlx::query_scalar!("SELECT 1 AS one FROM organizations WHERE slug = $1", slug)
                .fetch_optional(&mut *tx)
                .await?
                .is_some();
            let slug = if taken { format!("{slug}-{}", &id.simple().to_string()[20..]) } else { slug };
            sqlx::query!(
                "INSERT INTO organizations (id, slug, name, created_at) VALUES ($1, $2, $3, $4)",
                id,
                slug,
                new.organization,
                now
            )
            .execute(&mut *tx)
            .await?;
            id
        };
        let existing = sqlx::query!(
            "SELECT id, organization_id, role, disabled_at FROM staff WHERE email_canonical = $1 FOR UPDATE",
            new.email.canonical()
        )
        .fetch_optional(&mut *tx)
        .await?;
        let outcome = match existing {
            Some(row) if row.organization_id != organization => return Ok(AddStaffOutcome::Elsewhere),
            Some(row) if row.disabled_at.is_some() => {
                sqlx::query!(
                    "UPDATE staff SET disabled_at = NULL, role = $2 WHERE id = $1",
                    row.id,
                    new.role.as_str()
                )
                .execute(&mut *tx)
                .await?;
                AddStaffOutcome::Added(StaffId(row.id))
            }
            Some(row) if row.role != new.role.as_str() => {
                return Ok(AddStaffOutcome::OtherRole(word(Role::parse, "role", &row.role)?));
            }
            Some(row) => AddStaffOutcome::LinkRenewed(StaffId(row.id)),
            None => {
                let id = self.entropy().id();
                sqlx::query!(
                    "INSERT INTO staff (id, organization_id, email, email_canonical, name, role, created_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    id,
                    organization,
                    new.email.value(),
                    new.email.canonical(),
                    new.name.as_str(),
                    new.role.as_str(),
                    now
                )
                .execute(&mut *tx)
                .await?;
                AddStaffOutcome::Added(StaffId(id))
            }
        };
        let role = new.role.as_str();
        let from = matches!(outcome, AddStaffOutcome::LinkRenewed(_)).then_some(role);
        if let AddStaffOutcome::Added(staff) | AddStaffOutcome::LinkRenewed(staff) = outcome {
            let subject = Subject::Staff(staff);
            let record = Record::new(now, Actor::Operator, Act::AccessChanged, subject, Reason::SetUp)
                .states(from, Some(role));
            audit::append_to_organization(&mut tx, OrganizationId(organization), &record).await?;
            sqlx::query!(
                "UPDATE staff_links SET used_at = $2 WHERE staff_id = $1 AND used_at IS NULL",
                staff.0,
                now
            )
            .execute(&mut *tx)
            .await?;
            sqlx::query!(
                "INSERT INTO staff_links (token_hash, staff_id, created_at, expires_at) VALUES ($1, $2, $3, $4)",
                &link_hash[..],
                staff.0,
                now,
                now + LINK_LIFETIME
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(outcome)
    }

    /// Whom a one-time link that still works belongs to. Looking does not use it up.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn staff_by_link(&self, link_hash: [u8; 32]) -> Result<Option<StaffMember>, DbError> {
        let now = self.session_now().await?;
        sqlx::query_as!(
            MemberRow,
            "SELECT s.id, s.organization_id, o.name AS organization_name, s.email, s.name, s.role, s.password_version
             FROM staff_links l JOIN staff s ON s.id = l.staff_id JOIN organizations o ON o.id = s.organization_id
             WHERE l.token_hash = $1 AND l.used_at IS NULL AND l.expires_at > $2 AND s.disabled_at IS NULL",
            &link_hash[..],
            now
        )
        .fetch_optional(self.sessions())
        .await?
        .map(StaffMember::try_from)
        .transpose()
    }

    /// Uses up a link and sets the password: one transaction, which also ends every session of that person.
    /// `None` when the link does not work any more.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn set_password_by_link(
        &self,
        link_hash: [u8; 32],
        password_hash: &str,
    ) -> Result<Option<Credentials>, DbError> {
        let now = self.session_now().await?;
        let mut tx = self.sessions().begin().await?;
        let Some(staff) = sqlx::query_scalar!(
            "UPDATE staff_links SET used_at = $2 WHERE token_hash = $1 AND used_at IS NULL AND expires_at > $2
             RETURNING staff_id",
            &link_hash[..],
            now
        )
        .fetch_optional(&mut *tx)
        .await?
        else {
            return Ok(None);
        };
        let version = sqlx::query_scalar!(
            "UPDATE staff SET password_hash = $2, password_version = password_version + 1
             WHERE id = $1 AND disabled_at IS NULL RETURNING password_version",
            staff,
            password_hash
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(password_version) = version else { return Ok(None) };
        sqlx::query!(
            "UPDATE staff_links SET used_at = $2 WHERE staff_id = $1 AND used_at IS NULL",
            staff,
            now
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "UPDATE sessions SET revoked_at = $2, data = '{}' WHERE subject_id = $1 AND revoked_at IS NULL",
            staff,
            now
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Some(Credentials { staff: StaffId(staff), password_hash: None, password_version }))
    }

    /// Sets a password without a link: for the demonstration's accounts. Sessions of an older one are over.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn set_password(&self, staff: StaffId, password_hash: &str) -> Result<(), DbError> {
        sqlx::query!(
            "UPDATE staff SET password_hash = $2, password_version = password_version + 1 WHERE id = $1",
            staff.0,
            password_hash
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Takes a member's access away, with every session and link. The last owner keeps theirs.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn disable_staff(&self, staff: StaffId) -> Result<DisableStaffOutcome, DbError> {
        let now = self.session_now().await?;
        let mut tx = self.sessions().begin().await?;
        let Some(member) = sqlx::query!(
            "UPDATE staff SET disabled_at = $2 WHERE id = $1 AND disabled_at IS NULL RETURNING organization_id, role",
            staff.0,
            now
        )
        .fetch_optional(&mut *tx)
        .await?
        else {
            return Ok(DisableStaffOutcome::Nobody);
        };
        // Its record is written to this row anyway; locked first, two owners cannot disable each other at once.
        let organization = sqlx::query_scalar!(
            "SELECT name FROM organizations WHERE id = $1 FOR NO KEY UPDATE",
            member.organization_id
        )
        .fetch_one(&mut *tx)
        .await?;
        let others = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM staff WHERE organization_id = $1 AND role = $2 AND disabled_at IS NULL)
               AS "others!""#,
            member.organization_id,
            Role::Owner.as_str()
        )
        .fetch_one(&mut *tx)
        .await?;
        if member.role == Role::Owner.as_str() && !others {
            tx.rollback().await?;
            return Ok(DisableStaffOutcome::LastOwner { organization });
        }
        let role = word(Role::parse, "role", &member.role)?;
        let record =
            Record::new(now, Actor::Operator, Act::AccessChanged, Subject::Staff(staff), Reason::SetUp)
                .states(Some(role.as_str()), None);
        audit::append_to_organization(&mut tx, OrganizationId(member.organization_id), &record).await?;
        sqlx::query!(
            "UPDATE staff_links SET used_at = $2 WHERE staff_id = $1 AND used_at IS NULL",
            staff.0,
            now
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "UPDATE sessions SET revoked_at = $2, data = '{}' WHERE subject_id = $1 AND revoked_at IS NULL",
            staff.0,
            now
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(DisableStaffOutcome::Disabled)
    }

    /// The accent of the organization of that id, as `#rrggbb`.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn accent(&self, organization: OrganizationId) -> Result<Option<String>, DbError> {
        Ok(sqlx::query_scalar!("SELECT accent FROM organizations WHERE id = $1", organization.0)
            .fetch_optional(self.sessions())
            .await?)
    }

    /// Whether the database answers, through the sessions' pool.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ready(&self) -> Result<DateTime<Utc>, DbError> {
        Ok(sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#).fetch_one(self.sessions()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn every_name_has_an_address() {
        assert_eq!(slug("St. Mary's  Hall"), "st-mary-s-hall");
        assert_eq!(slug("劇場"), "organization");
    }
}
