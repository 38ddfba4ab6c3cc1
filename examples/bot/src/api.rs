//! The two methods of the Bot API that an echo needs.
//!
//! The token is part of the address. So no error with an address in it leaves this file.

use std::time::Duration;

use adieu::retry::{Permanent, RetryAfter};
use reqwest::{Client, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) struct Api {
    client: Client,
    get_updates: Url,
    send_message: Url,
    poll_seconds: u64,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Message {
    chat: Chat,
    pub(crate) text: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Chat {
    id: i64,
}

#[derive(Deserialize)]
struct Update {
    update_id: i64,
    message: Option<Message>,
}

/// Every answer of the API.
#[derive(Deserialize)]
struct Answer<T> {
    ok: bool,
    result: Option<T>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
}

/// Updates, each with the offset that follows it.
type Updates = Vec<(i64, (i64, Option<Message>))>;

/// Where the API is, with the token.
pub(crate) struct Address {
    get_updates: Url,
    send_message: Url,
}

impl Address {
    /// None, if it is not one: an error of the parser would quote it.
    pub(crate) fn read(address: &str) -> Option<Self> {
        let method = |name: &str| {
            let address = format!("{}/{name}", address.trim_end_matches('/'));
            let url = Url::parse(&address).ok();
            url.filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"))
        };
        Some(Self {
            get_updates: method("getUpdates")?,
            send_message: method("sendMessage")?,
        })
    }
}

impl Api {
    /// Reads the system's certificates, which takes its time.
    pub(crate) fn new(address: Address, poll_seconds: u64) -> adieu::Result<Self> {
        // Another one in its place is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .timeout(Duration::from_secs(poll_seconds + 20))
            .build()?;
        Ok(Self {
            client,
            get_updates: address.get_updates,
            send_message: address.send_message,
            poll_seconds,
        })
    }

    /// A long poll. Dropped, nothing has happened: the API confirms by the next offset only.
    pub(crate) async fn updates(&self, offset: Option<i64>) -> adieu::Result<Updates> {
        let mut query = vec![("timeout", self.poll_seconds.to_string())];
        query.extend(offset.map(|offset| ("offset", offset.to_string())));
        let request = self.client.get(self.get_updates.clone()).query(&query);
        let updates: Vec<Update> = ask(request).await?;
        let entry = |update: Update| (update.update_id + 1, (update.update_id, update.message));
        Ok(updates.into_iter().map(entry).collect())
    }

    pub(crate) async fn echo(&self, message: &Message) -> adieu::Result {
        #[derive(Serialize)]
        struct Echo<'a> {
            chat_id: i64,
            text: &'a str,
        }
        let echo = Echo {
            chat_id: message.chat.id,
            text: message.text.as_deref().unwrap_or_default(),
        };
        let request = self.client.post(self.send_message.clone()).json(&echo);
        ask::<serde::de::IgnoredAny>(request).await.map(drop)
    }
}

/// Sends a request, and sorts what can go wrong: what will pass, and what will not.
async fn ask<T: DeserializeOwned>(request: RequestBuilder) -> adieu::Result<T> {
    let away = |error: reqwest::Error| RetryAfter::soon(error.without_url());
    let response = request.send().await.map_err(away)?;
    let status = response.status();
    if status.is_server_error() {
        Err(RetryAfter::soon(format!("the API answers {status}")))?;
    }
    let answer: Answer<T> = response.json().await.map_err(away)?;
    if let Answer {
        ok: true,
        result: Some(result),
        ..
    } = answer
    {
        return Ok(result);
    }
    let description = answer.description.unwrap_or_default();
    let patience = answer
        .parameters
        .and_then(|parameters| parameters.retry_after);
    match (answer.error_code.unwrap_or(status.as_u16()), patience) {
        (_, Some(seconds)) => Err(RetryAfter::after(Duration::from_secs(seconds), description))?,
        (429 | 500.., None) => Err(RetryAfter::soon(description))?,
        (409, None) => Err(RetryAfter::soon(format!(
            "{description}: another bot with this token is polling, stop one of them"
        )))?,
        (401 | 404, None) => Err(Permanent::new(format!(
            "{description}: the API does not know this token, look at --api"
        )))?,
        // A chat that is gone, a bot that was blocked: this message has no answer, others have.
        (code, None) => Err(Permanent::new(format!("{code} {description}")))?,
    }
}
