//! The main job in a real browser, with everything at work: staff at a desk release places, mail goes out by itself,
//! and customers answer on a telephone. Once through a mail server; and once through the mailbox page, without scripts.

use chrono::Duration;
use fairlist::domain::role::Role;
use fairlist::messages::smtp::Server;
use fairlist::messages::{self, Relay};
use fairlist::{web, workers};
use fantoccini::Locator;
use fantoccini::wd::WindowHandle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::harness::browser::{Browser, Width};
use crate::harness::database::secret;
use crate::harness::desk::{Desk, HOUSE};
use crate::harness::patience::until;
use crate::harness::site::PASSWORD;
use crate::harness::smtp::SmtpServer;
use crate::harness::world::two_hours;

/// How long a story waits for what happens by itself.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

/// How what customers are told reaches them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Post {
    /// By a mail server.
    Mail,
    /// No server is set: staff read it out of the mailbox page.
    Mailbox,
}

/// A sold-out concert: Bella and Cora have its two places, Nina, Otto, Paul and Rosa wait. All workers run.
struct House {
    desk: Desk,
    at: String,
    server: Option<SmtpServer>,
    browser: Browser,
    /// Agnes's window, and the customers' telephone: one program, so that a small machine can do it.
    windows: [WindowHandle; 2],
    running: JoinSet<()>,
    stopping: CancellationToken,
}

impl House {
    async fn open(post: Post, scripts: bool) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let at = format!("http://localhost:{}", listener.local_addr().expect("an address").port());
        let server = if post == Post::Mail { Some(SmtpServer::start().await) } else { None };
        let relay = server.as_ref().map(|server| Relay {
            server: Server::parse(&format!("smtp://{}", server.address())).expect("an address"),
            from: "waitlist@fairlist.example".parse().expect("a sender"),
        });
        let mail = messages::Settings::new(at.parse().expect("a URL"), secret(), relay);
        let desk = Desk::writing(two_hours(), 2, mail).await;
        desk.world.booked("Bella", 1).await;
        desk.world.booked("Cora", 1).await;
        desk.world.all_waiting(&["Nina", "Otto", "Paul", "Rosa"]).await;
        desk.world.settle().await;

        let (mut running, stopping) = (JoinSet::new(), CancellationToken::new());
        let (router, stop) = (desk.router.clone(), stopping.clone());
        running.spawn(async move { web::serve(listener, router, stop).await.expect("served") });
        workers::passes::start(&mut running, &desk.world.waitlist, &stopping);
        let db = desk.world.database.db().for_workers();
        workers::start_mailers(&mut running, &db, &desk.mail, &stopping);

        let browser = Browser::start().await;
        let at_the_desk = browser.window().await.expect("a window");
        browser.set_scripts(scripts).await;
        let phone = browser.new_window(false).await.expect("another window").handle;
        let windows = [at_the_desk, phone];
        browser.switch_to_window(windows[1].clone()).await.expect("there");
        browser.set_width(Width::Phone).await;
        browser.set_scripts(scripts).await;
        Self { desk, at, server, browser, windows, running, stopping }
    }

    /// Agnes, at 1280 px.
    async fn agnes(&self) -> &Browser {
        self.browser.switch_to_window(self.windows[0].clone()).await.expect("there");
        &self.browser
    }

    /// A customer's telephone, of 390 px.
    async fn phone(&self) -> &Browser {
        self.browser.switch_to_window(self.windows[1].clone()).await.expect("there");
        &self.browser
    }

    /// Everybody goes home, so that nothing is in the middle of something when the books are looked into.
    async fn close(self) {
        let Self { desk, browser, mut running, stopping, .. } = self;
        // Connections that a browser keeps open would keep the server.
        drop(browser);
        stopping.cancel();
        while let Some(ended) = running.join_next().await {
            ended.expect("a worker ends well");
        }
        drop(desk);
    }

    /// Agnes, an agent, signs in at the desk and opens the event.
    async fn agnes_signs_in(&self) {
        let agnes = self.agnes().await;
        let address = self.desk.hired_by(HOUSE, "Agnes", Role::Agent).await;
        agnes.open(&format!("{}/staff", self.at)).await;
        agnes.sees("For staff.").await;
        agnes.fill("Email", &address).await;
        agnes.fill("Password", PASSWORD).await;
        agnes.press("Sign in").await;
        agnes.sees("Nothing needs you.").await;
        agnes.press("Events").await;
        agnes.press("Spring Concert").await;
    }

    /// Agnes looks at the event's page.
    async fn agnes_opens(&self, below: &str) {
        let agnes = self.agnes().await;
        agnes.open(&format!("{}{}", self.at, self.desk.path(below))).await;
    }

    /// Agnes releases the place of somebody, and is told that it is done.
    async fn agnes_releases(&self, place: u32, whose: &str, next: &str) {
        let agnes = self.agnes().await;
        self.agnes_opens("").await;
        agnes.press("Release a place").await;
        agnes.sees(&format!("Whatever you release is offered to the line at once: {next} is next.")).await;
        agnes.press(&format!("Release: Place {place}, {whose}")).await;
        agnes.sees(&format!("{next} is next in line and is offered it at once.")).await;
        agnes.choose("The customer asked").await;
        agnes.press("Release the place").await;
        // However fast the rule was.
        let next = format!("{next} is next and is being offered 1 place.");
        agnes.sees(&format!("Released: place {place}, booked by {whose}. {next}")).await;
    }

    /// Waits until somebody was told of this occasion; where there is no mail server, Agnes opens it.
    async fn told(&self, who: &str, occasion: &str) {
        let told = "SELECT EXISTS (SELECT FROM messages m JOIN persons p ON p.id = m.person_id
                    WHERE p.name = $1 AND m.occasion = $2 AND m.state = 'told')";
        until(&format!("{who} is told: {occasion}"), PATIENCE, async || {
            let told = sqlx::query_scalar(told).bind(who).bind(occasion);
            told.fetch_one(self.desk.world.database.sql()).await.expect("messages")
        })
        .await;
        if self.server.is_none() {
            let agnes = self.agnes().await;
            agnes.open(&format!("{}/staff/messages", self.at)).await;
            agnes.sees("No SMTP server is set: messages are readable here and nowhere else.").await;
            agnes.press(&format!("{occasion} to {who}")).await;
        }
    }

    /// The link of somebody's offer, as it was mailed.
    async fn link(&self, who: &str) -> String {
        self.told(who, "offer").await;
        let start = format!("{}/o/", self.at);
        let Some(server) = &self.server else {
            let agnes = self.agnes().await;
            let link = agnes.find(Locator::Css("main a.button")).await.expect("a link");
            let link = link.attr("href").await.expect("read").expect("an address");
            assert!(agnes.text("main pre").await.contains(&link), "the letter holds the same link");
            assert!(link.starts_with(&start), "{link}");
            return link;
        };
        let mail = server.mail_that_says(&address(who), "It is your turn: 1 place at Spring Concert.").await;
        assert_eq!(mail.to, [address(who)], "to nobody else");
        let link = mail.link(&start);
        assert!(mail.html().contains(&format!("href=\"{link}\"")), "both parts hold the same link");
        link
    }

    /// The code that was sent to somebody.
    async fn code(&self, who: &str) -> String {
        self.told(who, "code").await;
        match &self.server {
            Some(server) => server.mail_that_says(&address(who), "Your code for Spring Concert").await.code(),
            None => self.agnes().await.text("main strong.mono").await,
        }
    }

    /// Somebody takes their telephone, follows the link of their mail, asks for the code and enters it.
    async fn follows_the_link(&self, who: &str) {
        let link = self.link(who).await;
        let phone = self.phone().await;
        phone.open(&format!("{}/healthz", self.at)).await;
        phone.delete_cookie("fairlist").await.expect("the telephone of somebody else");
        phone.open(&link).await;
        phone.sees("Is that you? We send a code to this address").await;
        let shown = phone.current_url().await.expect("an address");
        assert!(shown.path().starts_with("/offers/"), "without the token: {shown}");
        assert_eq!(phone.overflow().await, 0);
        phone.press("Send me the code").await;
        let code = self.code(who).await;
        self.phone().await.fill("Six digits", &code).await;
        phone.press("Open my offer").await;
        phone.sees(&format!("held for {who}")).await;
        assert_eq!(phone.overflow().await, 0);
    }
}

fn address(who: &str) -> String {
    format!("{}@example.org", who.to_lowercase())
}

/// The link in the mail works as it was mailed, from the code to the booking. (fossasia/eventyay#1253)
async fn the_main_job(post: Post, scripts: bool) {
    let house = House::open(post, scripts).await;
    house.agnes_signs_in().await;
    let agnes = house.agnes().await;
    agnes.sees("2 booked 0 held 0 open of 2 places").await;
    agnes
        .sees("Next offer: Nina, 1 place, joined first (1 Mar 2027, 10:00), as soon as 1 place comes back.")
        .await;
    assert_eq!(agnes.overflow().await, 0);

    // Nina accepts: a booking.
    house.agnes_releases(1, "Bella", "Nina").await;
    house.follows_the_link("Nina").await;
    let phone = house.phone().await;
    if scripts {
        phone.sees("1:59:5").await;
    } else {
        assert_eq!(phone.text("[data-digits]").await, "in 2 h", "said by the server");
    }
    phone.sees("Until Mon 1 Mar 2027, 12:00 (CET, UTC+01:00)").await;
    phone.press("Take my place").await;
    phone.sees("1 place at Spring Concert is yours").await;
    house.told("Nina", "accepted").await;
    let reference = house.phone().await.text(".reference").await;
    house.agnes_opens("/bookings").await;
    agnes.sees(&reference).await;

    // Otto declines: Paul is offered the place by itself.
    house.agnes_releases(2, "Cora", "Otto").await;
    house.follows_the_link("Otto").await;
    let phone = house.phone().await;
    phone.press("Pass my place on to the next in line").await;
    phone.sees("You passed your place on").await;
    house.follows_the_link("Paul").await;

    // Paul is silent: his page says so by itself, and Rosa is offered it.
    house.desk.world.later(Duration::hours(2));
    house.told("Paul", "lapsed").await;
    let phone = house.phone().await;
    phone.refresh().await.expect("loaded again");
    phone.sees("The time for 1 place at Spring Concert is up").await;
    phone.sees("You are still on the waitlist").await;
    house.follows_the_link("Rosa").await;
    house.agnes_opens("").await;
    agnes.sees("1 booked 1 held 0 open of 2 places").await;
    agnes.sees("Next offer: Paul, 1 place").await;

    // The audit tells it all.
    house.agnes_opens("/audit").await;
    let rows = agnes.execute(AUDITED, Vec::new()).await.expect("the table");
    let rows: Vec<String> = serde_json::from_value(rows).expect("lines");
    let told: Vec<&str> = rows.iter().rev().map(String::as_str).collect();
    let cancelled = "Booking cancelled, cancelled: Agnes, the customer asked";
    let offered = "Offered, pending: The rule, first in order of arrival";
    assert_eq!(
        told,
        [
            "Booked, confirmed: Staff, the customer asked",
            "Booked, confirmed: Staff, the customer asked",
            cancelled,
            offered,
            "Booked, confirmed: The customer, accepted by the customer",
            "Accepted, accepted: The customer, accepted by the customer",
            cancelled,
            offered,
            "Declined, declined: The customer, declined by the customer",
            offered,
            "Offer expired, expired: The rule, no answer before the deadline",
            offered,
        ]
    );
    house.close().await;
}

/// What happened to offers and bookings, a line each: what, what it is now, by whom and why.
const AUDITED: &str = r"return [...document.querySelectorAll('main tbody tr')]
    .map(row => [...row.cells].map(cell => cell.innerText.replace(/[\u2068\u2069]/g, '').trim()))
    .filter(([, , , to]) => to === 'offer' || to === 'booking')
    .map(([, , what, , now, by, why]) => `${what}, ${now}: ${by}, ${why}`)";

#[tokio::test]
async fn a_place_is_released_offered_by_mail_and_taken_passed_on_or_let_lapse() {
    the_main_job(Post::Mail, true).await;
}

#[tokio::test]
async fn the_same_through_the_mailbox_page_and_without_scripts() {
    the_main_job(Post::Mailbox, false).await;
}
