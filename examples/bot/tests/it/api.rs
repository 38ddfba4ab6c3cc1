//! A server that speaks as much of the Bot API as an echo needs. One thread for each connection, no timers: a poll that
//! has nothing to say waits for something.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "123456:a-token-that-is-secret";

/// The API, as long as the test lasts.
#[derive(Clone)]
pub(crate) struct Api {
    shared: Arc<Shared>,
    pub(crate) url: String,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Not confirmed yet, by number.
    updates: BTreeMap<i64, String>,
    last: i64,
    /// What was sent back, in order.
    echoes: Vec<String>,
    /// Offsets of all polls, in order.
    polls: Vec<Option<i64>>,
    /// At most so many updates in an answer.
    batch: usize,
    /// Answers to be given before any other: method, status, body.
    mishaps: Vec<(&'static str, u16, Value)>,
    /// Answers to `sendMessage` are held back while it is so.
    held: bool,
}

impl Api {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        shared.state.lock().expect("not poisoned").batch = 100;
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let ours = Arc::clone(&ours);
                thread::spawn(move || ours.serve(stream));
            }
        });
        let url = format!("http://{address}/bot{TOKEN}");
        Self { shared, url }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("not poisoned")
    }

    /// A user writes to the bot.
    pub(crate) fn write(&self, text: impl Into<String>) {
        let mut state = self.state();
        state.last += 1;
        let id = state.last;
        state.updates.insert(id, text.into());
        self.shared.changed.notify_all();
    }

    /// How many updates are not confirmed yet.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.state().updates.len()
    }

    pub(crate) fn batch(&self, most: usize) {
        self.state().batch = most;
    }

    pub(crate) fn mishap(&self, method: &'static str, status: u16, body: Value) {
        self.state().mishaps.push((method, status, body));
    }

    /// Holds back the answers to what the bot says, or lets them go.
    pub(crate) fn hold(&self, held: bool) {
        self.state().held = held;
        self.shared.changed.notify_all();
    }

    pub(crate) fn echoes(&self) -> Vec<String> {
        self.state().echoes.clone()
    }

    pub(crate) fn polls(&self) -> Vec<Option<i64>> {
        self.state().polls.clone()
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until_polls(&self, count: usize) {
        self.until("polls", |state| state.polls.len() >= count);
    }

    #[track_caller]
    pub(crate) fn until_echoes(&self, count: usize) {
        self.until("echoes", |state| state.echoes.len() >= count);
    }

    #[track_caller]
    fn until(&self, what: &str, so: impl Fn(&State) -> bool) {
        let waited =
            self.shared
                .changed
                .wait_timeout_while(self.state(), crate::bot::PATIENCE, |state| !so(state));
        let timed_out = waited.expect("not poisoned").1.timed_out();
        assert!(!timed_out, "{what} never came");
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let mut stream = stream;
        while let Some((target, body)) = request(&mut reader) {
            let (status, answer) = self.answer(&target, &body);
            let text = answer.to_string();
            let length = text.len();
            let head = format!(
                "HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            if stream
                .write_all(format!("{head}{text}").as_bytes())
                .is_err()
            {
                return;
            }
        }
    }

    fn answer(&self, target: &str, body: &[u8]) -> (u16, Value) {
        let Some(rest) = target.strip_prefix(&format!("/bot{TOKEN}/")) else {
            let unknown = json!({"ok": false, "error_code": 404, "description": "Not Found"});
            return (404, unknown);
        };
        let (method, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut state = self.state.lock().expect("not poisoned");
        let mishap = state.mishaps.iter().position(|(of, ..)| *of == method);
        let result = match method {
            "getUpdates" => {
                let offset = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("offset="));
                let offset = offset.map(|offset| offset.parse().expect("a number"));
                state.polls.push(offset);
                self.changed.notify_all();
                if let Some(index) = mishap {
                    let (_, status, body) = state.mishaps.remove(index);
                    return (status, body);
                }
                // An offset confirms all before it.
                if let Some(offset) = offset {
                    state.updates = state.updates.split_off(&offset);
                }
                while state.updates.is_empty() {
                    state = self.changed.wait(state).expect("not poisoned");
                }
                let update = |(id, text): (&i64, &String)| json!({"update_id": id, "message": {"chat": {"id": 7}, "text": text}});
                let most = state.batch;
                Value::Array(state.updates.iter().take(most).map(update).collect())
            }
            _ => {
                if let Some(index) = mishap {
                    let (_, status, body) = state.mishaps.remove(index);
                    return (status, body);
                }
                let body: Value = serde_json::from_slice(body).expect("JSON");
                let text = body["text"].as_str().expect("a text").to_owned();
                state.echoes.push(text);
                self.changed.notify_all();
                while state.held {
                    state = self.changed.wait(state).expect("not poisoned");
                }
                json!({"message_id": 1})
            }
        };
        (200, json!({"ok": true, "result": result}))
    }
}

/// Target and body of the next request.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((target, body))
}
