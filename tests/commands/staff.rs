//! `fairlist staff`: who may sign in, and that it is on record.

use std::process::Command;

use crate::harness::database::TestDatabase;

/// Runs the command; its output and whether it succeeded.
fn staff(database: &TestDatabase, arguments: &[&str]) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_fairlist"))
        .arg("staff")
        .args(arguments)
        .args(["--database-url", &database.url()])
        .output()
        .expect("the program starts");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (said, output.status.success())
}

#[tokio::test]
async fn staff_are_added_by_a_link_lose_access_by_a_command_and_all_of_it_is_on_record() {
    let database = TestDatabase::new().await;
    let add = |email, role| {
        staff(&database, &["add", "--organization", "House of Music", "--email", email, "--role", role])
    };
    let (said, success) = add("ada@example.org", "owner");
    assert!(success && said.contains("ada@example.org is owner of House of Music now."), "{said}");
    assert!(said.contains("/staff/link/"), "{said}");
    let (said, success) = add("ADA@example.org", "owner");
    assert!(success && said.contains("was owner of House of Music already"), "{said}");
    let (said, success) = add("ada@example.org", "viewer");
    assert!(!success && said.contains("this does not change roles. Nothing was changed"), "{said}");

    let disable = |email| staff(&database, &["disable", "--email", email]);
    let (said, success) = disable("ada@example.org");
    assert!(!success && said.contains("ada@example.org is the last owner of House of Music"), "{said}");
    let (said, success) = add("zoe@example.org", "owner");
    assert!(success, "{said}");
    let (said, success) = disable("ada@example.org");
    assert!(success && said.contains("ada@example.org has no access any more"), "{said}");
    for nobody in ["ada@example.org", "bob@example.org"] {
        let (said, success) = disable(nobody);
        assert!(!success && said.contains("nobody of the staff with access. Nothing was changed"), "{said}");
    }
    let (said, success) = add("ada@example.org", "viewer");
    assert!(success && said.contains("ada@example.org is viewer of House of Music now."), "{said}");

    // Ada is back with a smaller role: now Zoe is the last.
    let (said, success) = disable("zoe@example.org");
    assert!(!success && said.contains("add another owner first. Nothing was changed"), "{said}");
    let (said, success) = disable("ada@example.org");
    assert!(success, "whoever is no owner is not missed: {said}");

    let steps: Vec<String> = sqlx::query_scalar(
        "SELECT coalesce(from_state, 'nobody') || ' to ' || coalesce(to_state, 'nobody')
         FROM organization_audit WHERE actor = 'operator' AND act = 'access_changed' ORDER BY seq",
    )
    .fetch_all(database.sql())
    .await
    .expect("records");
    assert_eq!(
        steps,
        [
            "nobody to owner",
            "owner to owner",
            "nobody to owner",
            "owner to nobody",
            "nobody to viewer",
            "viewer to nobody"
        ]
    );
}
