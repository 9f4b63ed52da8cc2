//! The worker that empties the outbox: claims, writes, sends, notes.
//!
//! Several run side by side, also in other processes; the lease shares the messages among them. A mail server gets
//! one message at a time from each worker, so that one that hangs holds up nothing but itself.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::extension::ClientId;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::letter::{self, Letter, Show, one_line};
use super::smtp::{self, Connection, Parcel, Progress, Server, Step};
use crate::db::background::Background;
use crate::db::outbox::{ChannelTrouble, Claim, Finished};
use crate::db::{Db, DbError};
use crate::domain::contact::EmailAddress;
use crate::domain::delivery::{Channel, LEASE, Verdict};
use crate::domain::ids::{ContactId, MessageId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::telling::LATE;
use crate::failpoint;
use crate::waitlist::{contacts, telling};

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many messages were dealt with; there may be more.
    Worked(usize),
    /// Nothing is due.
    Idle,
    /// The mail server rests until then.
    Paused(DateTime<Utc>),
}

/// The mailbox page takes many at once: nothing but the database can be slow.
const MAILBOX_BATCH: i64 = 100;

/// Empties the outbox. Each of the workers has its own connection to the mail server.
pub struct Mailer {
    db: Db,
    settings: Arc<Settings>,
    stopping: CancellationToken,
    kept: Option<Connection>,
    contacts_checked: Option<DateTime<Utc>>,
}

impl Mailer {
    /// A worker on `db`; `stopping` tells it to come to an end.
    #[must_use]
    pub fn new(db: &Db, settings: Arc<Settings>, stopping: CancellationToken) -> Self {
        Self { db: db.for_workers(), settings, stopping, kept: None, contacts_checked: None }
    }

    /// Deals with what is due: one message by SMTP, or a batch for the mailbox page.
    ///
    /// # Errors
    /// What the database says; what was claimed meanwhile comes back when its lease ends.
    pub async fn tick(&mut self) -> Result<Outcome, DbError> {
        let now = self.db.now().await?;
        self.db.take_over_expired_leases(now).await?;
        self.check_contacts(now).await?;
        let channel = self.settings.channel();
        let trouble = match &self.settings.smtp {
            Some(_) => self.db.channel_trouble().await?,
            None => None,
        };
        if let Some(trouble) = &trouble {
            if trouble.paused_until > now {
                self.hang_up().await;
                return Ok(Outcome::Paused(trouble.paused_until));
            }
            // Nothing may be there to be sent, least of all offers: whether it works again has to be found out.
            if !self.is_greeted(trouble).await? {
                return Ok(Outcome::Idle);
            }
        }
        let limit = if channel == Channel::Smtp { 1 } else { MAILBOX_BATCH };
        let claims = self.db.claim_messages(channel, limit, now).await?;
        if claims.is_empty() {
            if trouble.is_some() {
                self.works_again(now).await?;
                self.hang_up().await;
            }
            if self.kept.as_ref().is_some_and(Connection::is_stale) {
                self.hang_up().await;
            }
            return Ok(Outcome::Idle);
        }
        // There may be work for another, who sleeps.
        self.db.hints().message.notify_one();
        let count = claims.len();
        let mut finished = Vec::with_capacity(count);
        for claim in claims {
            failpoint::reach("message.claimed");
            let (contact, verdict) = self.deliver(&claim).await;
            failpoint::reach("message.sent");
            finished.push(Finished { claim, contact, verdict });
        }
        self.note(&finished, trouble.as_ref()).await?;
        failpoint::reach("message.noted");
        Ok(Outcome::Worked(count))
    }

    /// Waits until somebody in this process says that a message was written.
    pub async fn hinted(&self) {
        self.db.hints().message.notified().await;
    }

    /// Ends the connection to the mail server, if there is one.
    pub async fn hang_up(&mut self) {
        if let Some(connection) = self.kept.take() {
            connection.close().await;
        }
    }

    /// Once a minute: whatever interrupted a change of contacts, entries catch up.
    async fn check_contacts(&mut self, now: DateTime<Utc>) -> Result<(), DbError> {
        let minute = chrono::Duration::minutes(1);
        if self.contacts_checked.is_none_or(|last| now - last >= minute || now < last) {
            contacts::catch_up(&self.db).await?;
            self.contacts_checked = Some(now);
        }
        Ok(())
    }

    async fn note(&self, finished: &[Finished], trouble: Option<&ChannelTrouble>) -> Result<(), DbError> {
        let now = self.db.now().await?;
        let noted = self.db.note_outcomes(finished, now).await?;
        for message in &noted.late {
            tracing::warn!(%message, "the lease had ended before the outcome was known; nothing was written");
        }
        let (metrics, channel) = (self.db.metrics(), self.settings.channel().as_str());
        for done in finished {
            metrics.delivered(channel, done.verdict.as_str());
            let offers = [Occasion::Offer.as_str(), Occasion::Call.as_str()];
            if done.verdict == Verdict::Accepted && offers.contains(&done.claim.occasion.as_str()) {
                metrics.told_of_offer(channel, (now - done.claim.made_at).to_std().unwrap_or_default());
            }
            match &done.verdict {
                Verdict::ChannelDown { detail, certain } => {
                    tracing::warn!(detail, "the mail server does not work");
                    self.db.channel_failed(trouble, detail, *certain, now).await?;
                }
                Verdict::Accepted if trouble.is_some() => self.works_again(now).await?,
                Verdict::Permanent { detail, .. } => {
                    tracing::warn!(message = %done.claim.message, detail, "a message cannot be delivered");
                }
                _ => {}
            }
        }
        if noted.contacts_changed {
            contacts::catch_up(&self.db).await?;
        }
        Ok(())
    }

    /// Whether a mail server that did not work takes us in again; its connection is kept for the next mail. A mail would
    /// find out as well, but would have been written in vain.
    async fn is_greeted(&mut self, trouble: &ChannelTrouble) -> Result<bool, DbError> {
        let Some(relay) = &self.settings.smtp else { return Ok(true) };
        let hello = hello(&self.settings);
        let greeting = smtp::greet(&relay.server, &hello);
        let greeted = tokio::select! {
            greeted = tokio::time::timeout(self.settings.send_timeout, greeting) => greeted,
            () = self.stopping.cancelled() => return Ok(false),
        };
        let verdict = match greeted {
            Ok(Ok(connection)) => {
                self.kept = Some(connection);
                return Ok(true);
            }
            Ok(Err(verdict)) => verdict,
            Err(_) => Progress::default().cut_off("no answer within the time limit"),
        };
        if let Verdict::ChannelDown { detail, certain } = verdict {
            tracing::warn!(detail, "the mail server still does not work");
            self.db.channel_failed(Some(trouble), &detail, certain, self.db.now().await?).await?;
        }
        Ok(false)
    }

    async fn works_again(&self, now: DateTime<Utc>) -> Result<(), DbError> {
        tracing::info!("the mail server works again");
        self.db.channel_works(now).await
    }

    /// Everything between claim and outcome. A panic in it is a failed attempt, not the end of the worker.
    #[tracing::instrument(name = "letter", skip_all, fields(message = %claim.message))]
    async fn deliver(&mut self, claim: &Claim) -> (Option<ContactId>, Verdict) {
        if self.stopping.is_cancelled() {
            return (None, Verdict::Released("The program is stopping."));
        }
        let prepared =
            tokio::spawn(prepare(self.db.clone(), Arc::clone(&self.settings), claim.clone())).await;
        let (contact, parcel) = match prepared {
            Ok(Prepared::Done(contact, verdict)) => return (contact, verdict),
            Ok(Prepared::Send(contact, parcel)) => (contact, parcel),
            Err(error) => return (None, Verdict::Transient(failed("writing", &error))),
        };
        let Some(relay) = &self.settings.smtp else {
            return (contact, Verdict::Accepted);
        };
        let server = relay.server.clone();
        (contact, self.send(claim, server, *parcel).await)
    }

    /// Sends in a task of its own, which is cut off when its time is up, its lease is lost, or the program stops.
    async fn send(&mut self, claim: &Claim, server: Server, parcel: Parcel) -> Verdict {
        let progress = Progress::default();
        let hello = hello(&self.settings);
        let kept = self.kept.take().filter(|connection| !connection.is_stale());
        let mut sending = tokio::spawn({
            let progress = progress.clone();
            async move { smtp::send(&server, &hello, kept, &parcel, &progress).await }
        });
        let time_is_up = tokio::time::sleep(self.settings.send_timeout);
        let (stopping, stop_timeout) = (self.stopping.clone(), self.settings.stop_timeout);
        let told_to_stop = async move {
            stopping.cancelled().await;
            tokio::time::sleep(stop_timeout).await;
        };
        tokio::pin!(time_is_up, told_to_stop);
        let mut heartbeat = tokio::time::interval((LEASE / 4).to_std().unwrap_or(self.settings.send_timeout));
        heartbeat.tick().await;
        let cut = loop {
            tokio::select! {
                sent = &mut sending => return self.sent(sent),
                () = &mut time_is_up => break Cut::Late,
                () = &mut told_to_stop => break Cut::Stopping,
                _ = heartbeat.tick() => if !self.still_ours(claim).await { break Cut::LeaseLost },
            }
        };
        sending.abort();
        // It may have come to its end in this very moment; then that is the truth.
        match sending.await {
            Err(error) if error.is_cancelled() => cut.verdict(&progress),
            sent => self.sent(sent),
        }
    }

    fn sent(&mut self, sent: Result<(Verdict, Option<Connection>), tokio::task::JoinError>) -> Verdict {
        match sent {
            Ok((verdict, connection)) => {
                self.kept = connection;
                verdict
            }
            Err(error) => Verdict::Transient(failed("sending", &error)),
        }
    }

    /// A heartbeat that cannot be written does not end the lease: only another worker can.
    async fn still_ours(&self, claim: &Claim) -> bool {
        let extended = async { self.db.extend_lease(claim, self.db.now().await?).await };
        extended.await.unwrap_or(true)
    }
}

/// Why a send was cut off.
#[derive(Clone, Copy)]
enum Cut {
    Late,
    Stopping,
    LeaseLost,
}

impl Cut {
    fn verdict(self, progress: &Progress) -> Verdict {
        match (self, progress.step()) {
            (Self::Late, _) => progress.cut_off("no answer within the time limit"),
            (Self::Stopping | Self::LeaseLost, Step::Handover) => {
                progress.cut_off("the program stopped waiting")
            }
            (Self::Stopping, _) => Verdict::Released("The program is stopping."),
            // Another worker has it; this is refused when it is noted.
            (Self::LeaseLost, _) => Verdict::Released("The lease ended."),
        }
    }
}

fn failed(at: &str, error: &tokio::task::JoinError) -> String {
    tracing::error!(%error, at, "a message made the program fail");
    format!("The program failed while {at} this message.")
}

enum Prepared {
    /// Decided without sending.
    Done(Option<ContactId>, Verdict),
    /// To be handed over.
    Send(Option<ContactId>, Box<Parcel>),
}

/// Reads a claimed message again, decides whether it is still to be sent, and writes it.
async fn prepare(db: Db, settings: Arc<Settings>, claim: Claim) -> Prepared {
    match write(&db, &settings, &claim).await {
        Ok(prepared) => prepared,
        Err(Unwritable::Database(error))
            if error.is_transient() || matches!(error, DbError::Unavailable(_)) =>
        {
            Prepared::Done(None, Verdict::Released("The database could not be read."))
        }
        Err(error) => Prepared::Done(None, Verdict::Transient(format!("It cannot be written: {error}"))),
    }
}

#[derive(Debug, thiserror::Error)]
enum Unwritable {
    #[error("{0}")]
    Database(#[from] DbError),
    #[error("unknown occasion {0}")]
    Occasion(String),
    #[error("its facts are unreadable: {0}")]
    Facts(#[from] serde_json::Error),
    #[error("{0}")]
    Letter(#[from] letter::LetterError),
    #[error("the mail cannot be put together: {0}")]
    Mail(String),
}

async fn write(db: &Db, settings: &Settings, claim: &Claim) -> Result<Prepared, Unwritable> {
    let occasion =
        Occasion::parse(&claim.occasion).ok_or_else(|| Unwritable::Occasion(claim.occasion.clone()))?;
    let facts: Facts = serde_json::from_value(claim.facts.clone())?;
    let now = db.now().await?;
    let mut around = db.background(claim.event, claim.message, &facts).await?;
    if occasion == Occasion::Offer
        && let Some(offer) = around.offer.filter(|offer| now - offer.made_at > LATE)
    {
        telling::before_letter(db, claim.event, offer.id).await?;
        around = db.background(claim.event, claim.message, &facts).await?;
        failpoint::reach("message.made_up");
    }
    if let Some(why) = letter::no_longer_true(occasion, &facts, &around, now) {
        return Ok(Prepared::Done(None, Verdict::Suppressed(why)));
    }
    let letter = letter::write(settings, occasion, claim.subject, &facts, &around, Show::Revealed)?;
    let Some((contact, address)) = around.contact.clone() else {
        let detail = "There is no email address: tell them by telephone.".to_owned();
        return Ok(Prepared::Done(None, Verdict::Permanent { detail, contact_refused: false }));
    };
    let Some(relay) = &settings.smtp else {
        return Ok(Prepared::Done(contact, Verdict::Accepted));
    };
    let Some(to) = EmailAddress::parse(&address).ok().and_then(|address| address.value().parse().ok()) else {
        let detail = "This is not an address that mail can be sent to.".to_owned();
        return Ok(Prepared::Done(contact, Verdict::Permanent { detail, contact_refused: true }));
    };
    let to = Mailbox::new(Some(one_line(&around.person_name)).filter(|name| !name.is_empty()), to);
    let from = relay.sender_for(&around.organization_name);
    let id = message_id(settings, claim.message);
    let parcel = parcel(id, from, to, &around, &letter, now).map_err(Unwritable::Mail)?;
    Ok(Prepared::Send(contact, Box::new(parcel)))
}

/// The mail with its headers. The Message-ID is the row's, so that a duplicate can be recognised.
fn parcel(
    id: String,
    from: Mailbox,
    to: Mailbox,
    around: &Background,
    letter: &Letter,
    now: DateTime<Utc>,
) -> Result<Parcel, String> {
    let envelope = (from.email.clone(), to.email.clone());
    let mut mail = lettre::Message::builder()
        .message_id(Some(id))
        .date(now.into())
        .from(from)
        .to(to)
        .subject(one_line(&letter.subject))
        .raw_header(header("Auto-Submitted", "auto-generated"));
    if let Some(address) = EmailAddress::parse(&around.organization_contact)
        .ok()
        .and_then(|address| address.value().parse().ok())
    {
        mail = mail.reply_to(Mailbox::new(None, address));
    }
    if let Some(link) = &letter.unsubscribe {
        mail = mail
            .raw_header(header("List-Unsubscribe", &format!("<{link}>")))
            .raw_header(header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"));
    }
    let mail = mail
        .multipart(MultiPart::alternative_plain_html(letter.text.clone(), letter.html.clone()))
        .map_err(|error| error.to_string())?;
    let bytes = mail.formatted();
    if !bytes.is_ascii() {
        return Err("not everything was encoded".to_owned());
    }
    Ok(Parcel { from: envelope.0, to: envelope.1, bytes })
}

/// `<id@host>`: the row's id at the host of the base URL.
#[must_use]
pub fn message_id(settings: &Settings, message: MessageId) -> String {
    format!("<{message}@{}>", settings.links().host())
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
}

/// The name that greets the server.
fn hello(settings: &Settings) -> ClientId {
    match settings.base_url.host() {
        Some(url::Host::Domain(domain)) => ClientId::Domain(domain.to_owned()),
        Some(url::Host::Ipv4(address)) => ClientId::Ipv4(address),
        Some(url::Host::Ipv6(address)) => ClientId::Ipv6(address),
        None => ClientId::default(),
    }
}
