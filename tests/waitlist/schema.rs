//! The tables: what is there, and the key law.

use sqlx::PgPool;

use crate::harness::database::TestDatabase;

/// Everything in the schema, one thing a line. A change of it is a migration and shows in the diff of the
/// snapshot; to accept one: `INSTA_UPDATE=always tests/run the_catalogue`.
#[tokio::test]
async fn the_catalogue_is_as_reviewed() {
    let database = TestDatabase::new().await;
    let lines: Vec<String> = sqlx::query_scalar(
        r#"SELECT line FROM (
            SELECT c.relname::text AS of, 1 AS kind, to_char(a.attnum, '0000') AS name, format('%s.%s %s%s%s%s', c.relname,
                a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
                ' default ' || CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
                ' generated ' || CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END) AS line
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
            WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
            UNION ALL
            SELECT c.relname, 2, o.conname, format('%s constraint %s: %s', c.relname, o.conname, pg_get_constraintdef(o.oid))
            FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
            WHERE c.relnamespace = 'public'::regnamespace AND o.contype <> 'n'
            UNION ALL
            SELECT t.relname, 3, i.relname, pg_get_indexdef(x.indexrelid)
            FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
            WHERE t.relnamespace = 'public'::regnamespace
              AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = x.indexrelid AND o.conrelid = x.indrelid)
            UNION ALL
            SELECT c.relname, 4, g.tgname, pg_get_triggerdef(g.oid)
            FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
            WHERE c.relnamespace = 'public'::regnamespace AND NOT g.tgisinternal
            UNION ALL
            SELECT '~', 5, p.proname, format('function %s: %s', p.proname, md5(pg_get_functiondef(p.oid)))
            FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
        ) things
        WHERE of <> '_sqlx_migrations' ORDER BY of COLLATE "C", kind, name COLLATE "C""#,
    )
    .fetch_all(database.sql())
    .await
    .unwrap();
    insta::assert_snapshot!(lines.join("\n"));
}

/// Every table of an event's data has `event_id` first in its primary key, unique keys and foreign keys: so that
/// it can be partitioned or distributed by event without a change of code.
#[tokio::test]
async fn the_key_law_holds() {
    /// Keys that may begin with something else, and why.
    const EXCEPTIONS: &[(&str, &str)] = &[
        ("codes_pkey", "a code may be asked for outside any event; the event is only where it came from"),
        ("transitions_pkey", "a feed is of an organization, in one order over all its events"),
    ];
    let database = TestDatabase::new().await;
    let mut wrong = keys_that_break_the_law(database.sql()).await;
    let before = wrong.len();
    wrong.retain(|key| !EXCEPTIONS.iter().any(|(name, _)| name == key));
    assert!(wrong.is_empty(), "event_id does not come first in {wrong:?}");
    assert_eq!(before, EXCEPTIONS.len(), "an exception that is none any more");
}

#[tokio::test]
async fn the_key_law_is_seen_to_be_broken() {
    let mut database = TestDatabase::new().await;
    database.broken_on_purpose();
    sqlx::raw_sql(
        "CREATE TABLE pets (id uuid PRIMARY KEY, event_id uuid, entry_id uuid, name text UNIQUE);
         ALTER TABLE entries ADD CONSTRAINT entries_id_key UNIQUE (id);
         ALTER TABLE pets ADD CONSTRAINT pets_entry_fkey FOREIGN KEY (entry_id) REFERENCES entries (id)",
    )
    .execute(database.sql())
    .await
    .unwrap();
    let wrong = keys_that_break_the_law(database.sql()).await;
    for key in ["pets_pkey", "pets_name_key", "entries_id_key", "pets_entry_fkey"] {
        assert!(wrong.iter().any(|name| name == key), "{key} not among {wrong:?}");
    }
}

async fn keys_that_break_the_law(sql: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        r"WITH of_events AS (
            SELECT c.oid, a.attnum FROM pg_class c
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'event_id' AND NOT a.attisdropped
            WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace)
        SELECT i.relname::text FROM of_events t
        JOIN pg_index x ON x.indrelid = t.oid AND x.indisunique JOIN pg_class i ON i.oid = x.indexrelid
        WHERE x.indkey[0] <> t.attnum
        UNION ALL
        -- Between two tables of an event's data, the event comes first on both sides.
        SELECT o.conname FROM of_events t JOIN pg_constraint o ON o.conrelid = t.oid AND o.contype = 'f'
        JOIN of_events other ON other.oid = o.confrelid
        WHERE o.conkey[1] <> t.attnum OR o.confkey[1] <> other.attnum
        ORDER BY 1",
    )
    .fetch_all(sql)
    .await
    .unwrap()
}
