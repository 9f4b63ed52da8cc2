//! What the demonstration asks of a database before it takes it.

use super::{Db, DbError};

/// The slug by which the demonstration's organization is known.
pub const ORGANIZATION_SLUG: &str = "house-of-music";

/// What is in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing yet.
    Empty,
    /// The demonstration, whole.
    Demonstration,
    /// A demonstration that was interrupted while it was set up.
    Unfinished,
    /// Other organizations: not ours to touch.
    Others,
}

impl Db {
    /// What is in this database. `last` is the slug of the event that is made last.
    ///
    /// # Errors
    /// What the database says.
    pub async fn demonstration(&self, last: &str) -> Result<Contents, DbError> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "all!", count(*) FILTER (WHERE slug = $1) AS "ours!",
                      EXISTS (SELECT FROM events WHERE slug = $2 AND state = 'published') AS "whole!" FROM organizations"#,
            ORGANIZATION_SLUG,
            last
        )
        .fetch_one(self.pool())
        .await?;
        Ok(match (row.all, row.ours, row.whole) {
            (0, ..) => Contents::Empty,
            (1, 1, true) => Contents::Demonstration,
            (1, 1, false) => Contents::Unfinished,
            _ => Contents::Others,
        })
    }

    /// Takes everything out of a database that holds nothing but the demonstration; the migrations are to be applied
    /// again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn forget_demonstration(&self) -> Result<(), DbError> {
        let mut tx = self.pool().begin().await?;
        sqlx::query!("DROP SCHEMA public CASCADE").execute(&mut *tx).await?;
        sqlx::query!("CREATE SCHEMA public").execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }
}
