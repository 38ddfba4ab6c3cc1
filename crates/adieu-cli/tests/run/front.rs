//! `--front`: the clients' connections stay open, whatever the command behind them does.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use adieu_load::{Load, Mode, Target};
use adieu_testkit::iterations;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::restarts_under_load::{load, nothing_failed};
use crate::support::{PATIENCE, Wrapper, kill, run, until};

const CLIENTS: usize = 16;
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/front.py");

/// `adieu run --front` before the program of these tests.
struct Fronted {
    wrapper: Wrapper,
    address: SocketAddr,
    /// Of the process that serves.
    pid: i32,
    /// Where it listens.
    place: String,
}

impl Fronted {
    async fn start(options: &[&str], command: &[&str]) -> Self {
        let mut this = Self::begin(options, command).await;
        this.wrapper.says(" ready after ").await;
        this.place = this.wrapper.line("listens ").await;
        this
    }

    /// As [`start`](Self::start) does, with a command that may not listen yet.
    async fn begin(options: &[&str], command: &[&str]) -> Self {
        let options = [&["--front", "tcp:127.0.0.1:0"], options].concat();
        let command = [&["/usr/bin/python3", PROGRAM], command].concat();
        let mut wrapper = Wrapper::start(&options, &command);
        let line = wrapper.says("front on tcp:").await;
        let (_, address) = line.split_once("tcp:").expect("an address");
        let address = address.split(": ").next().and_then(|it| it.parse().ok());
        let pid = wrapper.line("pid ").await.parse().expect("a process id");
        Self {
            wrapper,
            address: address.expect("an address"),
            pid,
            place: String::new(),
        }
    }

    async fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        Client(BufReader::new(stream))
    }

    /// Has the next process take over, and does not wait for the end of the old one.
    async fn begin_restart(&mut self) {
        self.wrapper.signal(Signal::HUP);
        self.pid = self
            .wrapper
            .line("pid ")
            .await
            .parse()
            .expect("a process id");
        self.place = self.wrapper.line("listens ").await;
        self.wrapper.says(&format!("pid {} serves", self.pid)).await;
    }

    async fn restart(&mut self) {
        let old = self.pid;
        self.begin_restart().await;
        let gone = format!("the old process (pid {old})");
        self.wrapper.says(&gone).await;
    }

    async fn stop(self) {
        self.wrapper.signal(Signal::TERM);
        let (code, said) = self.wrapper.code().await;
        assert_eq!(code, 0, "{said}");
    }
}

/// One connection, which has to stay open.
struct Client(BufReader<TcpStream>);

#[derive(Debug)]
struct Response {
    status: u16,
    /// With the names in small letters.
    head: String,
    body: String,
    trailers: String,
}

impl Client {
    async fn send(&mut self, text: &str) {
        let sent = self.0.get_mut().write_all(text.as_bytes()).await;
        sent.expect("an open connection");
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.0.read_line(&mut line)).await;
        assert!(read.expect("in time").expect("a line") > 0, "closed");
        line
    }

    async fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        loop {
            let line = self.line().await;
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.expect("a status"), head.to_ascii_lowercase())
    }

    async fn exactly(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        let read = timeout(PATIENCE, self.0.read_exact(&mut bytes)).await;
        read.expect("in time").expect("the rest");
        String::from_utf8(bytes).expect("text")
    }

    /// The next piece of a chunked body; empty at its end.
    async fn chunk(&mut self) -> String {
        let size = self.line().await;
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        if size == 0 {
            return String::new();
        }
        let chunk = self.exactly(size).await;
        assert_eq!(self.line().await, "\r\n");
        chunk
    }

    async fn response(&mut self) -> Response {
        let (status, head) = self.head().await;
        let (mut body, mut trailers) = (String::new(), String::new());
        if head.contains("transfer-encoding: chunked") {
            loop {
                match self.chunk().await {
                    end if end.is_empty() => break,
                    chunk => body.push_str(&chunk),
                }
            }
            loop {
                match self.line().await {
                    end if end == "\r\n" => break,
                    line => trailers.push_str(&line),
                }
            }
        } else {
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            let length = length.and_then(|it| it.parse().ok()).unwrap_or(0);
            body = self.exactly(length).await;
        }
        Response {
            status,
            head,
            body,
            trailers,
        }
    }

    async fn get(&mut self, path: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: shop\r\n\r\n"))
            .await;
        self.response().await
    }

    /// The connection is closed without another byte.
    async fn closed(mut self) {
        let mut rest = Vec::new();
        let read = timeout(PATIENCE, self.0.read_to_end(&mut rest)).await;
        let _ = read.expect("in time");
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

#[tokio::test]
async fn a_request_is_forwarded_to_a_socket_or_a_port() {
    for place in ["{socket}", "{port}"] {
        let fronted = Fronted::start(&[], &[place]).await;
        assert_eq!(fronted.place.contains('/'), place == "{socket}");
        let mut client = fronted.client().await;
        let wanted = "PUT /head?a=b%20c HTTP/1.1\r\nHost: shop:80\r\nX-A: 1\r\nx-a: 2\r\n\
                      X-Forwarded-For: 10.0.0.1\r\nConnection: x-hop, keep-alive\r\nx-hop: 1\r\n\
                      TE: trailers\r\nUpgrade: h2c\r\n\r\n";
        client.send(wanted).await;
        let response = client.response().await;
        let mut lines: Vec<&str> = response.body.lines().filter(|it| !it.is_empty()).collect();
        lines[1..].sort_unstable();
        assert_eq!(
            lines,
            [
                "PUT /head?a=b%20c HTTP/1.1",
                "host: shop:80",
                "te: trailers",
                "x-a: 1",
                "x-a: 2",
                "x-forwarded-for: 127.0.0.1",
                "x-forwarded-host: shop:80",
                "x-forwarded-proto: http",
            ]
        );
        client
            .send("POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 3\r\n\r\nabc")
            .await;
        let response = client.response().await;
        assert_eq!(response.body, format!("pid {}", fronted.pid));
        drop(client);
        fronted.stop().await;
    }
}

#[tokio::test]
async fn the_client_is_named_as_asked_for() {
    let ask = "GET /head HTTP/1.1\r\nhost: shop\r\nx-forwarded-for: 10.0.0.1\r\n\r\n";
    for (policy, has, has_not) in [
        (
            "forwarded",
            "forwarded: for=127.0.0.1;host=\"shop\";proto=http",
            "x-forwarded",
        ),
        ("keep", "x-forwarded-for: 10.0.0.1", "127.0.0.1"),
    ] {
        let fronted = Fronted::start(&["--front-headers", policy], &["{socket}"]).await;
        let mut client = fronted.client().await;
        client.send(ask).await;
        let head = client.response().await.body;
        assert!(head.contains(has) && !head.contains(has_not), "{head}");
        drop(client);
        fronted.stop().await;
    }
}

/// Each piece comes back before the next one is sent: neither direction waits for an end.
#[tokio::test]
async fn bodies_pass_as_they_come() {
    let fronted = Fronted::start(&[], &["{socket}"]).await;
    let mut client = fronted.client().await;
    for _ in 0..2 {
        client
            .send("POST /echo HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        client.send("5\r\nfirst\r\n").await;
        let (status, _) = client.head().await;
        assert_eq!((status, client.chunk().await.as_str()), (200, "first"));
        client.send("6\r\nsecond\r\n").await;
        assert_eq!(client.chunk().await, "second");
        client.send("0\r\n\r\n").await;
        assert_eq!(client.chunk().await, "");
        assert_eq!(client.line().await, "\r\n");
    }
    let ask = "POST /trailers HTTP/1.1\r\nhost: shop\r\nte: trailers\r\ntrailer: x-mine\r\n\
               transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-mine: 7\r\n\r\n";
    client.send(ask).await;
    let response = client.response().await;
    assert_eq!(response.body.trim(), "x-mine: 7");
    assert_eq!(response.trailers.trim(), "x-sum: 42");
    drop(client);
    fronted.stop().await;
}

/// A client that waits for `100 Continue` hears the command's own decision.
#[tokio::test]
async fn the_command_decides_whether_a_body_is_sent() {
    let fronted = Fronted::start(&[], &["{socket}"]).await;
    let ask = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: shop\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
        )
    };
    let mut client = fronted.client().await;
    client.send(&ask("/asks")).await;
    assert_eq!(client.head().await.0, 100);
    client.send("abc").await;
    assert_eq!(client.response().await.body, "abc");
    client.send(&ask("/refuses")).await;
    let refused = client.response().await;
    assert_eq!((refused.status, refused.body.as_str()), (413, "too large"));
    drop(client);
    fronted.stop().await;
}

#[tokio::test]
async fn a_websocket_is_a_tunnel() {
    let mut fronted = Fronted::start(&[], &["{socket}"]).await;
    let ask = "GET /ws HTTP/1.1\r\nhost: shop\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n";
    // Either side may end it, and the other one sees that.
    let mut client = fronted.client().await;
    client.send(ask).await;
    let (status, head) = client.head().await;
    assert_eq!(status, 101);
    assert!(head.contains("upgrade: websocket"), "{head}");
    for text in ["\u{1}one", "two"] {
        client.send(text).await;
        assert_eq!(client.exactly(text.len()).await, text);
    }
    drop(client);
    fronted.wrapper.line("tunnel ended").await;
    let mut client = fronted.client().await;
    client.send(ask).await;
    client.head().await;
    client.send("close").await;
    assert_eq!(client.exactly(6).await, "closes");
    client.closed().await;
    // What was not asked for is not passed on.
    let mut client = fronted.client().await;
    assert_eq!(client.get("/switches").await.status, 502);
    drop(client);
    fronted.stop().await;
}

/// Clients that never let go of their connections, each with the next request when it has the response to the last.
struct Kept {
    clients: JoinSet<u64>,
    end: watch::Sender<bool>,
}

impl Kept {
    async fn start(fronted: &Fronted) -> Self {
        let (end, ended) = watch::channel(false);
        let (answered, mut all_answered) = watch::channel(0);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (mut client, ended, answered) =
                (fronted.client().await, ended.clone(), answered.clone());
            clients.spawn(async move {
                let mut count = 0;
                while !*ended.borrow() {
                    let response = client.get("/").await;
                    assert_eq!(response.status, 200, "{response:?}");
                    assert!(!response.head.contains("connection: close"), "{response:?}");
                    if count == 0 {
                        answered.send_modify(|count| *count += 1);
                    }
                    count += 1;
                }
                count
            });
        }
        let all = all_answered.wait_for(|count| *count == CLIENTS);
        timeout(PATIENCE, all)
            .await
            .expect("in time")
            .expect("answers");
        Self { clients, end }
    }

    /// None of them lost a request or its connection.
    async fn end(mut self) {
        self.end.send_replace(true);
        while let Some(client) = timeout(PATIENCE, self.clients.join_next())
            .await
            .expect("in time")
        {
            assert!(client.expect("no client failed") > 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_open_over_restarts() {
    for place in ["{socket}", "{port}"] {
        let mut fronted = Fronted::start(&[], &[place]).await;
        let kept = Kept::start(&fronted).await;
        for _ in 0..iterations(3, 100) {
            fronted.restart().await;
        }
        kept.end().await;
        fronted.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_http2_and_fresh_ones_lose_nothing_either() {
    let mut fronted = Fronted::start(&[], &["{socket}"]).await;
    let target = Target::tcp(fronted.address);
    let http2 = Load::http2(target, "/").clients(4).start();
    let fresh = load(&fronted.address.to_string(), Mode::Fresh).await;
    timeout(PATIENCE, http2.answered(50))
        .await
        .expect("answers");
    for _ in 0..iterations(2, 20) {
        fronted.restart().await;
    }
    nothing_failed(http2).await;
    nothing_failed(fresh).await;
    fronted.stop().await;
}

/// The program dies of SIGTERM at once: it is not sent before the last response is out.
#[tokio::test]
async fn a_stop_waits_for_the_responses() {
    let mut fronted = Fronted::start(&["--grace", "60s"], &["{socket}"]).await;
    let mut idle = fronted.client().await;
    assert_eq!(idle.get("/").await.status, 200);
    let mut held = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = fronted.client().await;
        held.spawn(async move { client.get("/hold").await });
    }
    for _ in 0..CLIENTS {
        fronted.wrapper.line("held").await;
    }
    fronted.wrapper.signal(Signal::TERM);
    fronted.wrapper.says("stopping: ").await;
    // The drain has lasted for the linger: a command that got its signal with it would be gone.
    assert_eq!(idle.response().await.status, 408);
    kill(fronted.pid, Signal::USR1);
    while let Some(response) = timeout(PATIENCE, held.join_next()).await.expect("in time") {
        let response = response.expect("a response");
        assert_eq!(response.body, format!("pid {}", fronted.pid));
    }
    let (code, said) = fronted.wrapper.code().await;
    assert_eq!(code, 0, "{said}");
}

/// A restart waits as a stop does; and the connection goes on with the next process.
#[tokio::test]
async fn a_restart_waits_for_the_responses() {
    let mut fronted = Fronted::start(&["--grace", "60s"], &["{socket}"]).await;
    let old = fronted.pid;
    let mut client = fronted.client().await;
    client
        .send("GET /hold HTTP/1.1\r\nhost: shop\r\n\r\n")
        .await;
    fronted.wrapper.line("held").await;
    fronted.begin_restart().await;
    // Another client is with the new process meanwhile.
    let mut other = fronted.client().await;
    assert_eq!(other.get("/").await.body, format!("pid {}", fronted.pid));
    kill(old, Signal::USR1);
    assert_eq!(client.response().await.body, format!("pid {old}"));
    assert_eq!(client.get("/").await.body, format!("pid {}", fronted.pid));
    let gone = format!("the old process (pid {old})");
    fronted.wrapper.says(&gone).await;
    drop((client, other));
    fronted.stop().await;
}

/// A stream of events has no end to wait for: it ends between two events, as a whole response, and its connection stays.
#[tokio::test]
async fn a_restart_ends_streams_of_events() {
    let mut fronted = Fronted::start(&["--grace", "60s"], &["{socket}"]).await;
    let mut client = fronted.client().await;
    client
        .send("GET /events HTTP/1.1\r\nhost: shop\r\n\r\n")
        .await;
    assert_eq!(client.head().await.0, 200);
    assert_eq!(client.chunk().await, "data: 1\n\n");
    fronted.restart().await;
    assert_eq!(client.chunk().await, "");
    assert_eq!(client.line().await, "\r\n");
    assert_eq!(client.get("/").await.body, format!("pid {}", fronted.pid));
    drop(client);
    fronted.stop().await;
}

/// A new version that dies, or never listens: the old one goes on, and no client notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_new_version_is_not_noticed() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let program = directory.path().join("front.py");
    let good = fs::read_to_string(PROGRAM).expect("the program");
    fs::write(&program, &good).expect("a file");
    let options = ["--front", "tcp:127.0.0.1:0", "--ready-timeout", "5s"];
    let command = [
        "/usr/bin/python3",
        program.to_str().expect("a path"),
        "{socket}",
    ];
    let mut wrapper = Wrapper::start(&options, &command);
    let line = wrapper.says("front on tcp:").await;
    let address = line
        .split("tcp:")
        .nth(1)
        .and_then(|it| it.split(": ").next());
    let address = address.and_then(|it| it.parse().ok()).expect("an address");
    wrapper.says(" ready after ").await;
    let pid = wrapper.line("pid ").await.parse().expect("a process id");
    let mut fronted = Fronted {
        wrapper,
        address,
        pid,
        place: String::new(),
    };
    let kept = Kept::start(&fronted).await;
    for broken in ["raise SystemExit(3)", "import time\ntime.sleep(1000)"] {
        fs::write(&program, broken).expect("a file");
        fronted.wrapper.signal(Signal::HUP);
        fronted.wrapper.says("; the old one stays").await;
    }
    fs::write(&program, &good).expect("a file");
    let old = fronted.pid;
    fronted.wrapper.signal(Signal::HUP);
    fronted
        .wrapper
        .says(&format!("the old process (pid {old})"))
        .await;
    kept.end().await;
    fronted.stop().await;
}

/// What was in flight is answered with 502, what comes until it is back waits, and the connection stays.
#[tokio::test]
async fn a_crash_costs_what_was_under_way() {
    let again = ["--restart", "on-failure", "--restart-delay", "1ms"];
    let mut fronted = Fronted::start(&again, &["{socket}"]).await;
    let mut client = fronted.client().await;
    client
        .send("GET /hold HTTP/1.1\r\nhost: shop\r\n\r\n")
        .await;
    fronted.wrapper.line("held").await;
    kill(fronted.pid, Signal::KILL);
    let lost = client.response().await;
    assert_eq!(lost.status, 502);
    assert!(
        lost.body.contains("may have acted on the request"),
        "{lost:?}"
    );
    // Until its end is seen, a request may still get into the queue of the socket that dies with it.
    fronted.wrapper.says("was ended by SIGKILL").await;
    let next = client.get("/").await;
    let pid: i32 = fronted
        .wrapper
        .line("pid ")
        .await
        .parse()
        .expect("a process id");
    assert_ne!(pid, fronted.pid);
    assert_eq!(next.body, format!("pid {pid}"));
    drop(client);
    fronted.stop().await;
}

#[tokio::test]
async fn a_request_waits_until_the_command_is_ready() {
    let mut fronted = Fronted::begin(&[], &["{socket}", "late"]).await;
    let mut client = fronted.client().await;
    client.send("GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
    kill(fronted.pid, Signal::USR1);
    assert_eq!(client.response().await.body, format!("pid {}", fronted.pid));
    fronted.wrapper.says(" ready after ").await;
    drop(client);
    fronted.stop().await;
}

/// A stop that comes before there is a process to ask: the client gets 503, and tries again.
#[tokio::test]
async fn a_request_that_no_process_will_take_is_refused() {
    let fronted = Fronted::begin(&[], &["{socket}", "late"]).await;
    let mut client = fronted.client().await;
    client.send("GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
    // Its head is taken before the stop is asked for: the port is asked after it, on the same thread.
    let mut other = fronted.client().await;
    other.send("GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(other.response().await.status, 400);
    fronted.wrapper.signal(Signal::TERM);
    let response = client.response().await;
    assert_eq!(response.status, 503);
    assert!(response.head.contains("retry-after: 1"), "{response:?}");
    fronted.wrapper.code().await;
}

#[tokio::test]
async fn what_the_command_does_wrong_is_a_502() {
    let mut fronted = Fronted::start(&[], &["{socket}"]).await;
    let mut client = fronted.client().await;
    assert_eq!(client.get("/nonsense").await.status, 502);
    // It has reached the command, which is not asked twice.
    client
        .send("POST /vanishes HTTP/1.1\r\nhost: shop\r\ncontent-length: 5\r\n\r\norder")
        .await;
    assert_eq!(client.response().await.status, 502);
    assert_eq!(fronted.wrapper.line("received ").await, "POST order");
    assert_eq!(client.get("/vanishes").await.status, 502);
    assert_eq!(fronted.wrapper.line("received ").await.trim(), "GET");
    // A connection that the command has closed since is not used again.
    for _ in 0..20 {
        assert_eq!(client.get("/closes").await.status, 200);
        fronted.wrapper.line("closed").await;
    }
    assert_eq!(client.get("/").await.status, 200);
    // Half a response stays half a response.
    client
        .send("GET /cuts HTTP/1.1\r\nhost: shop\r\n\r\n")
        .await;
    assert_eq!(client.head().await.0, 200);
    assert_eq!(client.exactly(4).await, "half");
    client.closed().await;
    fronted.wrapper.signal(Signal::TERM);
    let (_, said) = fronted.wrapper.code().await;
    assert_eq!(
        said.matches("which was not sent again").count(),
        1,
        "{said}"
    );
}

#[tokio::test]
async fn requests_that_are_none_are_refused() {
    let fronted = Fronted::start(&[], &["{socket}"]).await;
    for (text, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        ("CONNECT shop:443 HTTP/1.1\r\nhost: shop:443\r\n\r\n", 501),
        (
            "GET / HTTP/1.1\r\nhost: shop\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            400,
        ),
        (
            "GET / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked, identity\r\n\r\n",
            400,
        ),
        ("GET / HTTP/1.1\r\nhost : shop\r\n\r\n", 400),
    ] {
        let mut client = fronted.client().await;
        client.send(text).await;
        assert_eq!(client.response().await.status, status, "{text:?}");
    }
    fronted.stop().await;
}

#[tokio::test]
async fn the_directory_is_private_and_removed() {
    let mut fronted = Fronted::start(&[], &["{socket}"]).await;
    let old = PathBuf::from(&fronted.place);
    let directory = old.parent().map(Path::to_owned).expect("a directory");
    let mode = fs::metadata(&directory).expect("a directory").mode();
    assert_eq!(mode & 0o7777, 0o700);
    fronted.restart().await;
    assert_ne!(old, PathBuf::from(&fronted.place));
    until("the old socket is removed", || !old.exists());
    assert!(Path::new(&fronted.place).exists());
    fronted.stop().await;
    assert!(!directory.exists());
}

#[tokio::test]
async fn each_worker_has_its_share() {
    let options = ["--front", "tcp:127.0.0.1:0", "--workers", "2"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", PROGRAM, "{socket}"]);
    let line = wrapper.says("front on tcp:").await;
    let address = line
        .split("tcp:")
        .nth(1)
        .and_then(|it| it.split(": ").next());
    let address: SocketAddr = address.and_then(|it| it.parse().ok()).expect("an address");
    for _ in 0..2 {
        wrapper.says(" ready after ").await;
    }
    let mut pids = Vec::new();
    for _ in 0..2 {
        let pid = wrapper.line("pid ").await;
        pids.push(format!("pid {pid}"));
    }
    let stream = TcpStream::connect(address).await.expect("a connection");
    let mut client = Client(BufReader::new(stream));
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(client.get("/").await.body);
    }
    for pid in &pids {
        assert_eq!(seen.iter().filter(|it| *it == pid).count(), 5, "{seen:?}");
    }
    drop(client);
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

/// A probe of the front asks the new process itself: through the front, the old one would answer.
#[tokio::test]
async fn a_probe_of_the_front_asks_the_new_process() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let (front, probe) = (format!("tcp:{address}"), format!("http://{address}/hold"));
    let options = [
        "--front",
        &front,
        "--probe-http",
        &probe,
        "--probe-timeout",
        "30s",
    ];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", PROGRAM, "{socket}"]);
    let first: i32 = wrapper.line("pid ").await.parse().expect("a process id");
    wrapper.line("held").await;
    kill(first, Signal::USR1);
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::HUP);
    let second: i32 = wrapper.line("pid ").await.parse().expect("a process id");
    // The old one would answer at once: it has been released.
    wrapper.line("held").await;
    kill(second, Signal::USR1);
    wrapper.says(&format!("pid {second} serves")).await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let front = ["--front", "tcp:127.0.0.1:0"];
    for (options, command, words) in [
        (
            &front[..],
            &["server"][..],
            "has neither {socket} nor {port}: write one where",
        ),
        (
            &front,
            &["server", "{socket}", "{port}"],
            "has both {socket} and {port}",
        ),
        (
            &["--front", "8000"],
            &["a", "{port}"],
            "--front 8000: give tcp:host:port",
        ),
        (
            &["--front", "web=tcp:a:80"],
            &["a", "{port}"],
            "leave out its name",
        ),
        (
            &["--front-headers", "keep"],
            &["a"],
            "no effect without --front",
        ),
        (
            &["--front", "tcp:a:80", "--front-headers", "all"],
            &["a", "{port}"],
            "give x-forwarded, forwarded or keep",
        ),
        (
            &["--front", "tcp:0.0.0.0:80", "--listen", "tcp:127.0.0.1:80"],
            &["a", "{port}"],
            "are the same address",
        ),
        (
            &["--front", "tcp:a:80", "--signal", "hup=usr1"],
            &["a", "{port}"],
            "SIGHUP restarts the command",
        ),
    ] {
        let (code, _, said) = run(options, command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(words), "{words}: {said}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp:{}", taken.local_addr().expect("an address"));
    let (code, out, said) = run(&["--front", &address], &["echo", "{socket}"]);
    assert_eq!((code, out.as_str()), (125, ""), "{said}");
    assert!(said.contains("cannot listen on"), "{said}");
    let no_directory = [("TMPDIR", "/no/such/directory")];
    let (code, _, said) = crate::support::run_in(&no_directory, &front, &["echo", "{socket}"]);
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("Set TMPDIR"), "{said}");
}
