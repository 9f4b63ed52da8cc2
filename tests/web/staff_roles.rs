//! Who of the staff may do what, on every page and act; and that what belongs to others is not there.

use axum::http::StatusCode;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::OfferState;
use fairlist::domain::password::NewPassword;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::site::{Site, sign_in};
use crate::harness::world::{reason, two_hours};

/// Somebody waits, somebody has an offer, somebody's offer was taken back, somebody is booked.
struct Story {
    desk: Desk,
    pages: Vec<String>,
    acts: Vec<String>,
}

impl Story {
    async fn new() -> Self {
        let desk = Desk::with(two_hours(), 3).await;
        let world = &desk.world;
        world.booked("Bella", 1).await;
        let bella = world.person("Bella").await;
        let booking = world.bookings(bella).await[0];
        let offered = world.all_waiting(&["Otto", "Rosa"]).await;
        world.settle().await;
        let (otto, rosa) = (world.live_offer(offered[0].id).await, world.live_offer(offered[1].id).await);
        let after = fairlist::waitlist::staff_offers::AfterRevoke::SetAside;
        world.waitlist.revoke(world.event, rosa.id, after, world.actor(), &reason()).await.expect("revoked");
        world.booked("Cora", 1).await;
        let waiting = world.waiting("Walter", 1).await;
        let (entry, offer) = (format!("/entries/{}", waiting.id), format!("/offers/{}", otto.id));
        let pages = ["", "/queue", "/offers", "/offers?state=revoked", &entry, &offer]
            .into_iter()
            .map(|below| desk.path(below))
            .collect();
        let acts = [
            format!("{entry}/offer"),
            format!("{entry}/remove"),
            format!("{entry}/pause"),
            format!("/entries/{}/bring-back", offered[1].id),
            format!("{offer}/revoke"),
            format!("{offer}/extend"),
            format!("{offer}/accept"),
            format!("{offer}/decline"),
            format!("/offers/{}/reactivate", rosa.id),
            format!("/release/{booking}"),
        ]
        .iter()
        .map(|below| desk.path(below))
        .collect();
        Self { desk, pages, acts }
    }

    async fn records(&self) -> i64 {
        sqlx::query_scalar("SELECT audit_seq FROM events WHERE id = $1")
            .bind(self.desk.world.event.0)
            .fetch_one(self.desk.world.database.sql())
            .await
            .expect("the head")
    }
}

#[tokio::test]
async fn every_role_sees_every_page_and_only_agents_and_above_act_and_nobody_without_a_reason() {
    let story = Story::new().await;
    let before = story.records().await;
    for role in Role::ALL {
        let mut visitor = story.desk.at_work(&format!("Staff{role}"), *role).await;
        let may = *role != Role::Viewer;
        for page in &story.pages {
            let answer = visitor.get(page).await;
            assert_eq!(answer.status, StatusCode::OK, "{role} {page}");
            assert_eq!(answer.texts("main a").iter().any(|text| text.starts_with("Take back")), {
                may && answer.body.contains("/revoke")
            });
            if !may {
                for act in ["/revoke", "/extend", "/remove", "/pause", "/offer?", "/release", "/reactivate"] {
                    let shown =
                        !answer.texts("main a").is_empty() && answer.body.contains(&format!("{act}\""));
                    assert!(
                        !shown && !answer.body.contains(&format!("{act}?")),
                        "{role} sees {act} on {page}"
                    );
                }
            }
        }
        for act in &story.acts {
            let (shown, refused) = if may {
                (StatusCode::OK, StatusCode::UNPROCESSABLE_ENTITY)
            } else {
                (StatusCode::FORBIDDEN, StatusCode::FORBIDDEN)
            };
            assert_eq!(visitor.get(act).await.status, shown, "{role} GET {act}");
            let fields = [("after", "set_aside"), ("deadline", "2027-03-02T10:00")];
            let answer = visitor.post(act, &fields).await;
            assert_eq!(answer.status, refused, "{role} POST {act}: {}", answer.body);
            if may {
                says(&answer, "Choose a reason.");
                let fields = [fields[0], fields[1], ("reason", "other"), ("note", "  ")];
                let answer = visitor.post(act, &fields).await;
                assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{role} {act}");
                says(&answer, "Say in the note what the other reason is.");
                let fields = [fields[0], fields[1], ("reason", "first_in_order")];
                assert_eq!(visitor.post(act, &fields).await.status, StatusCode::UNPROCESSABLE_ENTITY);
            } else {
                says(&answer, "Your role does not allow that");
            }
        }
    }
    assert_eq!(story.records().await, before, "nothing was done");
}

#[tokio::test]
async fn what_belongs_to_another_organization_is_not_there() {
    let story = Story::new().await;
    let before = story.records().await;
    let desk = &story.desk;
    let mut stranger = desk.at_work_for("Other House", "Stranger", Role::Owner).await;
    let theirs = {
        let db = desk.world.database.db();
        let owner = db
            .staff_credentials(&crate::harness::world::email("stranger@staff.example"))
            .await
            .expect("read")
            .expect("there")
            .staff;
        let organization = db.staff_member(owner).await.expect("read").expect("there").organization;
        crate::harness::world::add_event(&desk.world.waitlist, organization, owner, "other", two_hours())
            .await
    };
    let own = format!("/staff/events/{theirs}");
    let page = stranger.get(&own).await;
    assert_eq!(page.status, StatusCode::OK);
    let ours = desk.path("");
    for path in story.pages.iter().chain(&story.acts) {
        for path in [path.clone(), path.replace(&ours, &own)] {
            if path == own
                || ["/queue", "/offers", "/offers?state=revoked"]
                    .iter()
                    .any(|end| path == format!("{own}{end}"))
            {
                continue;
            }
            let answer = stranger.get(&path).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
            says(&answer, "There is no such page");
            let fields = [("reason", "goodwill"), ("after", "set_aside"), ("deadline", "2027-03-02T10:00")];
            let answer = stranger.post(&path, &fields).await;
            assert!(
                matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED),
                "{path}: {}",
                answer.status
            );
        }
    }
    does_not_say(&stranger.get("/staff").await, "Spring Concert House");
    assert_eq!(story.records().await, before, "nothing was done");
}

#[tokio::test]
async fn unknown_addresses_are_pages_and_signed_out_visitors_go_to_sign_in() {
    let desk = Desk::with(two_hours(), 1).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let nobody = uuid::Uuid::max();
    for path in [
        "/staff/events/nonsense".to_owned(),
        format!("/staff/events/{nobody}"),
        desk.path("/entries/nonsense"),
        desk.path(&format!("/entries/{nobody}")),
        desk.path(&format!("/offers/{nobody}")),
        desk.path(&format!("/offers/{nobody}/revoke")),
        desk.path(&format!("/entries/{nobody}/dance")),
        desk.path(&format!("/release/{nobody}")),
    ] {
        let answer = agent.get(&path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        says(&answer, "There is no such page");
    }
    let mut nobody = crate::harness::visitor::Visitor::new(&desk.router);
    for path in ["/staff".to_owned(), desk.path(""), desk.path("/queue")] {
        let to = nobody.get(&path).await.location().unwrap_or_default();
        assert!(to.starts_with("/staff/sign-in?next="), "{path}: {to}");
    }
}

#[tokio::test]
async fn states_used_in_these_stories_are_what_they_say() {
    // The matrix above is worth nothing if its offers are not in the states that make the acts possible.
    let story = Story::new().await;
    let counts = story.desk.world.database.db().offer_counts(story.desk.world.event).await.expect("counts");
    assert_eq!(counts.iter().find(|(state, _)| *state == OfferState::Pending).map(|(_, n)| *n), Some(1));
    assert_eq!(counts.iter().find(|(state, _)| *state == OfferState::Revoked).map(|(_, n)| *n), Some(1));
    let entries = story.desk.world.database.db().entry_counts(story.desk.world.event).await.expect("counts");
    assert_eq!(entries.of(EntryState::Waiting), 2);
}

#[tokio::test]
async fn a_session_of_an_older_password_ends_at_the_sign_in_page() {
    let site = Site::new().await;
    let ada = site.staff("ada@example.org", Role::Owner).await;
    let mut visitor = site.signed_in("ada@example.org").await;
    let hash = NewPassword::parse("another fine one", &[]).expect("good").hash([2; 16]).expect("hashed");
    site.database.db().set_password(ada, &hash).await.expect("set");
    let page = visitor.open("/staff").await;
    assert_eq!(page.status, StatusCode::OK, "not round and round: {:?}", page.location());
    page.says("Sign in");
    assert_eq!(sign_in(&mut visitor, "ada@example.org", "another fine one").await.status.as_u16(), 303);
    assert_eq!(visitor.get("/staff").await.status, StatusCode::OK);
}
