//! A headless Chromium, one per test, as narrow, as dark and as scriptless as the test asks.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::patience::until;

/// How long a test waits for what a page is to show.
const PATIENCE: Duration = Duration::from_secs(15);

/// Whether a click on this element leads to another page: a link, or a button whose form can be sent.
const LEAVES: &str = "const element = arguments[0];
    if (element.matches('a[href]')) return !element.hasAttribute('download') && !element.hash;
    const form = element.matches('button:not([type=button])') ? element.form : null;
    return Boolean(form) && !form.dataset.sent && (form.noValidate || form.checkValidity());";

/// The widths at which pages are looked at.
#[derive(Clone, Copy, Debug)]
pub enum Width {
    /// A telephone: 390 px.
    Phone,
    /// A desk: 1280 px.
    Desk,
}

/// What the device prefers.
#[derive(Clone, Copy, Debug)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A browser with a profile of its own; what the `WebDriver` protocol offers is reached through it.
pub struct Browser {
    client: Client,
    session: String,
    driver: SocketAddr,
    child: Option<Child>,
    profile: PathBuf,
}

impl Deref for Browser {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Browser {
    /// Starts one, at a desk, in the light.
    pub async fn start() -> Self {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver is installed (tests/run sees to it)");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port: u16 = loop {
            let line = lines.next_line().await.expect("read").expect("chromedriver says which port it took");
            // "ChromeDriver was started successfully on port 40123."
            let port = line.split_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.'));
            if let Some(port) = port {
                break port.parse().expect("a port");
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let profile = std::env::temp_dir().join(format!("fairlist-browser-{}-{port}", std::process::id()));
        let options = json!({
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en",
                format!("--user-data-dir={}", profile.display()),
            ],
        });
        let capabilities: Capabilities = [("goog:chromeOptions".to_owned(), options)].into_iter().collect();
        let driver = SocketAddr::from(([127, 0, 0, 1], port));
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://{driver}"))
            .await
            .expect("a browser session");
        let session = client.session_id().await.expect("ask").expect("there is a session");
        let browser = Self { client, session, driver, child: Some(child), profile };
        browser.set_width(Width::Desk).await;
        browser
    }

    /// Lays pages out for this width.
    pub async fn set_width(&self, width: Width) {
        let (width, height, mobile) = match width {
            Width::Phone => (390, 844, true),
            Width::Desk => (1280, 900, false),
        };
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// What `prefers-color-scheme` says.
    pub async fn set_scheme(&self, scheme: Scheme) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        // Without motion: a picture right after the change would show colours on their way.
        let features = json!({"features": [
            {"name": "prefers-color-scheme", "value": value},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Whether pages may run scripts; a test's own still run.
    pub async fn set_scripts(&self, run: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": !run})).await;
    }

    /// Opens a page.
    pub async fn open(&self, url: &str) {
        self.goto(url).await.unwrap_or_else(|error| panic!("open {url}: {error}"));
    }

    /// Waits for the first element that matches, and tells its text.
    pub async fn text(&self, css: &str) -> String {
        let element = self.wait().at_most(PATIENCE).for_element(Locator::Css(css)).await;
        match element {
            Ok(element) => element.text().await.unwrap_or_else(|error| panic!("read {css}: {error}")),
            Err(error) => panic!("no {css} ({error}) on {}", self.describe().await),
        }
    }

    /// Waits until the page shows this somewhere.
    pub async fn sees(&self, text: &str) {
        // Without the marks that keep names of another direction apart.
        let shown = format!(
            "//body[contains(translate(normalize-space(.), '\u{2068}\u{2069}', ''), {})]",
            quoted(text)
        );
        match self.wait().at_most(PATIENCE).for_element(Locator::XPath(&shown)).await {
            Ok(_) => {}
            Err(error) => panic!("nothing says {text:?} ({error}) on {}", self.describe().await),
        }
    }

    /// Fills the field whose label begins with this, or whose name it is.
    pub async fn fill(&self, label: &str, value: &str) {
        let label = quoted(label);
        let field = format!(
            "//*[self::input or self::textarea or self::select]\
             [@id = //label[starts-with(normalize-space(.), {label})]/@for or @name = {label} \
             or ancestor::label[starts-with(normalize-space(.), {label})]]"
        );
        // A page that is just being left takes its fields along: then the same field of the next one is meant.
        for _ in 0..50 {
            match self.try_fill(&field, value).await {
                Err(error) if error.to_string().contains("stale element") => tokio::task::yield_now().await,
                Err(error) => panic!("fill {label} ({error}) on {}", self.describe().await),
                Ok(()) => return,
            }
        }
        panic!("{label} never stays on {}", self.describe().await);
    }

    async fn try_fill(&self, field: &str, value: &str) -> Result<(), fantoccini::error::CmdError> {
        let field = self.wait().at_most(PATIENCE).for_element(Locator::XPath(field)).await?;
        if field.tag_name().await? == "select" {
            return field.select_by_label(value).await;
        }
        field.clear().await?;
        field.send_keys(value).await
    }

    /// Presses the button, or follows the link, whose words these are; where that leads to a page, to this page.
    pub async fn press(&self, words: &str) {
        let quoted = quoted(words);
        let pressed = format!("//*[self::a or self::button or self::summary][normalize-space(.) = {quoted}]");
        self.click(words, &pressed).await;
    }

    /// Ticks the choice whose words begin so.
    pub async fn choose(&self, label: &str) {
        let quoted = quoted(label);
        self.click(label, &format!("//label[starts-with(normalize-space(.), {quoted})]")).await;
    }

    async fn click(&self, words: &str, xpath: &str) {
        // A page that refreshes itself may replace what was found: then the same on what came instead is meant.
        for _ in 0..50 {
            match self.try_click(xpath).await {
                Err(error) if error.to_string().contains("stale element") => tokio::task::yield_now().await,
                Err(error) => {
                    panic!("nothing to press called {words} ({error}) on {}", self.describe().await)
                }
                Ok(()) => return,
            }
        }
        panic!("{words} never stays on {}", self.describe().await);
    }

    async fn try_click(&self, xpath: &str) -> Result<(), fantoccini::error::CmdError> {
        let element = self.wait().at_most(PATIENCE).for_element(Locator::XPath(xpath)).await?;
        let argument = serde_json::to_value(&element)?;
        let leaves = self.execute(LEAVES, vec![argument]).await? == Value::Bool(true);
        let page = self.find(Locator::Css("html")).await?;
        element.click().await?;
        if leaves {
            until("the page that was asked for comes", PATIENCE, async || page.tag_name().await.is_err())
                .await;
            until("it is whole", PATIENCE, async || {
                let state = self.execute("return document.readyState", Vec::new()).await;
                state.is_ok_and(|state| state == "complete")
            })
            .await;
        }
        Ok(())
    }

    /// Follows a link that gives a file, and tells where the file is once it is whole.
    pub async fn take_along(&self, words: &str) -> PathBuf {
        let folder = self.profile.join("downloads");
        let allowed = json!({"behavior": "allow", "downloadPath": folder});
        self.devtools("Browser.setDownloadBehavior", allowed).await;
        self.press(words).await;
        let whole = || {
            let files = std::fs::read_dir(&folder).into_iter().flatten();
            // As long as it comes, it has another name.
            files.map(|file| file.expect("a file").path()).find(|path| {
                let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                !hidden && path.extension().is_none_or(|ending| ending != "crdownload")
            })
        };
        until("the file is there", PATIENCE, async || whole().is_some()).await;
        whole().expect("a file")
    }

    /// Keeps a picture of the whole page in `target/screenshots`, for somebody to look at.
    pub async fn picture(&self, name: &str) -> PathBuf {
        use base64::Engine as _;
        let shot = json!({"format": "png", "captureBeyondViewport": true});
        let shot = self.devtools("Page.captureScreenshot", shot).await;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(shot["data"].as_str().expect("a picture"))
            .expect("base64");
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
        std::fs::create_dir_all(&folder).expect("make the folder");
        let path = folder.join(format!("{name}.png"));
        std::fs::write(&path, bytes).expect("write the picture");
        path
    }

    /// What the page is wider than the window by: nothing should scroll sideways.
    pub async fn overflow(&self) -> i64 {
        // The width of the layout: a phone's window widens with what sticks out.
        let script = "const root = document.documentElement; return root.scrollWidth - root.clientWidth";
        self.execute(script, Vec::new()).await.expect("measure").as_i64().expect("a number").max(0)
    }

    /// A command of Chromium's own protocol.
    pub async fn devtools(&self, command: &'static str, parameters: Value) -> Value {
        self.issue_cmd(DevTools { command, parameters })
            .await
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Where the browser is and what it shows, for a failed expectation.
    async fn describe(&self) -> String {
        let url = self.current_url().await.map(|url| url.to_string()).unwrap_or_default();
        let body = match self.find(Locator::Css("body")).await {
            Ok(body) => body.text().await.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        format!("{url}:\n{body}")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser when the session is deleted, but not when it is itself killed.
        let (driver, session) = (self.driver, self.session.clone());
        let ended = std::thread::spawn(move || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(driver)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(
                stream,
                "DELETE /session/{session} HTTP/1.1\r\nHost: {driver}\r\nConnection: close\r\n\r\n"
            )?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        });
        drop(ended.join());
        drop(self.child.take());
        drop(std::fs::remove_dir_all(&self.profile));
    }
}

/// An `XPath` string, whichever quotes it holds.
fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}

#[derive(Debug)]
struct DevTools {
    command: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(json!({"cmd": self.command, "params": self.parameters}).to_string()))
    }
}
