//! Journeys in a real browser, with everything at work: staff at a desk, mail that goes out by itself, customers who
//! answer on a telephone.

mod lottery;
mod main_job;

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
    /// The staff's window, and the customers' telephone: one program, so that a small machine can do it.
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
        running.spawn(async move {
            web::serve(listener, router, web::Timeouts::default(), stop).await.expect("served");
        });
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

    /// The staff's desk, at 1280 px.
    async fn staff(&self) -> &Browser {
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

    /// Somebody of the staff signs in at the desk and opens the event.
    async fn signs_in(&self, name: &str, role: Role) {
        let staff = self.staff().await;
        let address = self.desk.hired_by(HOUSE, name, role).await;
        staff.open(&format!("{}/staff", self.at)).await;
        staff.sees("For staff.").await;
        staff.fill("Email", &address).await;
        staff.fill("Password", PASSWORD).await;
        staff.press("Sign in").await;
        staff.sees("Nothing needs you.").await;
        staff.press("Events").await;
        staff.press("Spring Concert").await;
    }

    /// The staff look at one of the event's pages.
    async fn staff_open(&self, below: &str) {
        let staff = self.staff().await;
        staff.open(&format!("{}{}", self.at, self.desk.path(below))).await;
    }

    /// Waits until somebody was told of this occasion; where there is no mail server, the staff open it.
    async fn told(&self, who: &str, occasion: &str) {
        let told = "SELECT EXISTS (SELECT FROM messages m JOIN persons p ON p.id = m.person_id
                    WHERE p.name = $1 AND m.occasion = $2 AND m.state = 'told')";
        until(&format!("{who} is told: {occasion}"), PATIENCE, async || {
            let told = sqlx::query_scalar(told).bind(who).bind(occasion);
            told.fetch_one(self.desk.world.database.sql()).await.expect("messages")
        })
        .await;
        if self.server.is_none() {
            let staff = self.staff().await;
            staff.open(&format!("{}/staff/messages", self.at)).await;
            staff.sees("No SMTP server is set: messages are readable here and nowhere else.").await;
            staff.press(&format!("{occasion} to {who}")).await;
        }
    }

    /// The link of somebody's offer, as it was mailed.
    async fn link(&self, who: &str) -> String {
        self.told(who, "offer").await;
        let start = format!("{}/o/", self.at);
        let Some(server) = &self.server else {
            let staff = self.staff().await;
            let link = staff.find(Locator::Css("main a.button")).await.expect("a link");
            let link = link.attr("href").await.expect("read").expect("an address");
            assert!(staff.text("main pre").await.contains(&link), "the letter holds the same link");
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
            None => self.staff().await.text("main strong.mono").await,
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
