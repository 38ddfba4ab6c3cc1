//! The page in a real browser: drawn, moved by keyboard, read aloud, not broken out of.
//!
//! A page of ours holds the report in a frame, does to it what a person would, and tells us what it saw. The report's
//! own policy stays in force.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use adieu_drill::render::html;
use adieu_drill::report::{Fate, Report};
use rustix::process::{self, Pid, Signal};
use tempfile::TempDir;

use crate::sample;

/// Only a browser that never answers takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the script noted in the page around the report; None without a browser.
fn seen(report: &Report, script: &str) -> Option<String> {
    let (url, told) = serve(around(report, script));
    let Some(_browser) = Browser::open(&url) else {
        fixture_skip::missing("chromium, chromium-browser or google-chrome");
        return None;
    };
    Some(told.recv_timeout(PATIENCE).expect("word from the browser"))
}

fn around(report: &Report, script: &str) -> String {
    let frame = html(report).replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=utf-8><title>around</title>
        <iframe id=report width=1000 height=900 srcdoc=\"{frame}\"></iframe><script>
        let seen = '';
        const note = text => {{ seen += text + '\\n'; }};
        const frame = document.getElementById('report');
        frame.addEventListener('load', async () => {{
          const page = frame.contentDocument, view = frame.contentWindow;
          const canvas = page.getElementById('canvas'), said = page.getElementById('said');
          const drawn = () => new Promise(done => view.requestAnimationFrame(() => view.requestAnimationFrame(done)));
          const press = async key => {{
            canvas.dispatchEvent(new view.KeyboardEvent('keydown', {{ key, bubbles: true, cancelable: true }}));
            await drawn();
          }};
          const span = () => Number(canvas.dataset.to) - Number(canvas.dataset.from);
          try {{ await drawn(); {script} }} catch (error) {{ note('error: ' + error); }}
          fetch('/seen', {{ method: 'POST', body: seen }});
        }});
        </script>"
    )
}

/// Serves one page, and passes on what is posted to it.
fn serve(page: String) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (tell, told) = mpsc::channel();
    let page = Arc::new(page);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (page, tell) = (Arc::clone(&page), tell.clone());
            // A browser opens sockets to spare, which must not hold up the others.
            thread::spawn(move || answer(socket, &page, &tell));
        }
    });
    (url, told)
}

fn answer(mut socket: TcpStream, page: &str, tell: &Sender<String>) -> Option<()> {
    let mut reading = BufReader::new(socket.try_clone().ok()?);
    let mut head = String::new();
    while reading.read_line(&mut head).ok()? > 2 {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reading.read_exact(&mut body).ok()?;
    let content = if head.starts_with("GET / ") { page } else { "" };
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{content}",
        content.len()
    );
    socket.write_all(answer.as_bytes()).ok()?;
    if head.starts_with("POST /seen ") {
        tell.send(String::from_utf8_lossy(&body).into_owned())
            .ok()?;
    }
    Some(())
}

/// A browser that is ended with the test: all of its processes, which are a group of their own.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    /// None if there is none here.
    fn open(url: &str) -> Option<Self> {
        let profile = TempDir::new().expect("a directory for the profile");
        let child = ["chromium", "chromium-browser", "google-chrome"]
            .iter()
            .find_map(|name| {
                Command::new(name)
                    .args([
                        "--headless=new",
                        "--no-sandbox",
                        "--disable-gpu",
                        "--disable-quic",
                    ])
                    .args([
                        "--disable-dev-shm-usage",
                        "--no-first-run",
                        "--no-proxy-server",
                    ])
                    .args([
                        "--disable-background-networking",
                        "--disable-component-update",
                        "--disable-sync",
                    ])
                    .arg("--window-size=1100,1000")
                    .arg(format!("--user-data-dir={}", profile.path().display()))
                    .arg(url)
                    .process_group(0)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .ok()
            })?;
        Some(Self {
            child,
            _profile: profile,
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn a_person_can_look_at_a_stop_without_a_mouse() {
    let mut report = sample::failing();
    report.target_report = Some(sample::own_report());
    report.target_report_stop = Some(0);
    let script = "
        note('drawn ' + (Number(canvas.dataset.drawn) > 0));
        canvas.focus();
        note('focus ' + (page.activeElement === canvas));
        const whole = span();
        await press('+'); note('closer ' + (span() < whole));
        const left = Number(canvas.dataset.from);
        await press('ArrowRight'); note('moved ' + (Number(canvas.dataset.from) > left));
        note(said.textContent.includes('after the signal'));
        await press('0'); note('all ' + (span() > whole));
        await press('n'); note(said.textContent);
        await press('n'); note(said.textContent);
        await press('n'); note(said.textContent);
        await press('.'); note('next ' + said.textContent.startsWith('GET /'));
        page.getElementById('only').checked = true;
        page.getElementById('requests').open = true;
        await drawn();
        note('rows ' + page.getElementById('rows').children.length + ' ' + page.getElementById('page').textContent);
        const choice = page.getElementById('stop');
        choice.value = '1';
        choice.dispatchEvent(new view.Event('change'));
        await drawn();
        note(canvas.getAttribute('aria-label'));
    ";
    let Some(seen) = seen(&report, script) else {
        return;
    };
    insta::assert_snapshot!(seen);
}

#[test]
fn a_label_that_would_break_out_is_only_text() {
    let mut report = sample::failing();
    let label = "</script><script>parent.document.title='taken'</script><img src=x onerror=\"parent.document.title='taken'\">";
    for bar in &mut report.stops[0].requests {
        bar.label = label.to_owned();
    }
    report.checks[1].evidence = vec![label.to_owned()];
    let script = "
        await press('.');
        note('shown ' + said.textContent.includes('<img src=x'));
        note('title ' + document.title);
        note('images ' + page.images.length);
    ";
    let Some(seen) = seen(&report, script) else {
        return;
    };
    assert_eq!(seen, "shown true\ntitle around\nimages 0\n");
}

#[test]
fn ten_thousand_requests_are_drawn_and_moved_and_no_pixel_twice() {
    let mut report = sample::passing();
    let mut stop = sample::stop(500, 20);
    stop.requests[7_000].fate = Fate::TimedOut;
    report.stops = vec![stop];
    let mut script = "note(page.getElementById('stop').options[0].textContent);".to_owned();
    // The way in and out again, and along: each step is a frame.
    for key in ["+", "+", "+", "ArrowRight", "ArrowRight", "0", "n"] {
        let _ = write!(script, "await press('{key}');");
    }
    script.push_str(
        "note(said.textContent); note('within ' + (Number(canvas.dataset.drawn) <= 10000));",
    );
    let Some(seen) = seen(&report, &script) else {
        return;
    };
    let expected = "inflight-finishes, stop 1: 10,000 requests, 1 lost\n";
    assert!(seen.starts_with(expected), "{seen}");
    assert!(seen.contains("timed out, lost\nwithin true\n"), "{seen}");
}

/// A roll-out is drawn from far fewer; the page bears all of them. The time is printed and not judged.
#[test]
fn a_hundred_thousand_requests_are_loaded_and_drawn() {
    let mut report = sample::passing();
    let mut stop = sample::stop(1_000, 100);
    stop.requests[70_000].fate = Fate::TimedOut;
    report.stops = vec![stop];
    let script = "note(page.getElementById('stop').options[0].textContent); await press('n'); note(said.textContent);
        note('drawn ' + (Number(canvas.dataset.drawn) > 0));
        const [loaded] = view.performance.getEntriesByType('navigation');
        note('ms ' + Math.round(loaded ? loaded.duration : view.performance.now()));";
    let Some(seen) = seen(&report, script) else {
        return;
    };
    let (told, ms) = seen.rsplit_once("ms ").expect("a time");
    println!("100,000 requests are loaded in {} ms", ms.trim());
    assert!(
        told.starts_with("inflight-finishes, stop 1: 100,000 requests, 1 lost\n"),
        "{told}"
    );
    assert!(told.contains("timed out, lost\ndrawn true\n"), "{told}");
}
